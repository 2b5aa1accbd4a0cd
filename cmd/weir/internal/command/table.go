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

// widths are those of the columns.
func (t *table) widths() []int {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// tableLine is a row; cells that are too wide push the others aside.
func tableLine(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		b.WriteString("  " + cell + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell))))
	}
	return strings.TrimRight(b.String(), " ")
}

func (t *table) write(w io.Writer) {
	if len(t.rows) == 0 {
		fmt.Fprintln(w, "  none")
		return
	}
	widths := t.widths()
	line := func(row []string) { fmt.Fprintln(w, tableLine(row, widths)) }
	line(t.head)
	for i, row := range t.rows {
		line(row)
		for _, n := range t.notes[i] {
			fmt.Fprintf(w, "      %s\n", strings.ReplaceAll(n, "\n", "\n      "))
		}
	}
}
