package command

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is rows in columns, each with notes below it.
type table struct {
	head  []string
	rows  [][]string
	notes [][]string
}

func (t *table) add(notes []string, cells ...string) {
	t.rows, t.notes = append(t.rows, cells), append(t.notes, notes)
}

func (t *table) write(w io.Writer) {
	if len(t.rows) == 0 {
		fmt.Fprintln(w, "  none")
		return
	}
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(row []string) {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString("  " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	line(t.head)
	for i, row := range t.rows {
		line(row)
		for _, n := range t.notes[i] {
			fmt.Fprintf(w, "      %s\n", strings.ReplaceAll(n, "\n", "\n      "))
		}
	}
}
