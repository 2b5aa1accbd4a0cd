// Package window assigns event times to windows.
//
// An Assigner is a plain value: Tumbling and Sliding make one. Windows are
// half-open spans of milliseconds since the epoch: a record at the end of a
// window belongs to the next one.
//
// Windows that overlap share their contents. An assigner cuts time into
// slices at every start and every end of a window, so that each window is a
// whole number of slices and a record belongs to exactly one slice, however
// many windows cover it. The engine keeps one accumulator per slice and merges
// those of a window when the window fires.
package window
