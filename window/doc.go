// Package window assigns event times to windows.
package window
