// Package memory is the one allocator of state memory.
//
// A Pool hands out runs of bytes that the garbage collector neither scans nor
// moves: anonymous mappings with huge pages advised on Linux, the Go heap
// elsewhere and under the race detector. An Arena cuts such runs into blocks
// behind 32-bit handles, which is what state entries keep instead of
// pointers.
//
// Memory once touched is kept and reused until the pool is closed, because a
// first touch of a page is what costs most.
package memory
