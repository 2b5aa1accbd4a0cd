package runner

import (
	"fmt"
	"strconv"
	"time"
)

// thousands is n with commas: 1,234,567.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return thousands(n) + " " + what
}

func perSecond(rate float64) string {
	switch {
	case rate >= 1e6:
		return fmt.Sprintf("%.2f M/s", rate/1e6)
	case rate >= 1e4:
		return fmt.Sprintf("%.1f k/s", rate/1e3)
	}
	return fmt.Sprintf("%.0f/s", rate)
}

func size(bytes int64) string {
	switch {
	case bytes >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
	case bytes >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	case bytes >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
	}
	return fmt.Sprintf("%d B", bytes)
}

// short is d with about three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
