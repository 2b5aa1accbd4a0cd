package memory

// Arena, View and Handle are the variable parts of state: see the contract in
// each comment.
//
// Handle names a block of an arena; 0 is no block. It fits into 32 bits.
type Handle uint32
