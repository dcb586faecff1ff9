// What the parts of working_set_probe share: its pieces of device memory, and the kernels that work
// on them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "gpu/cuda_abi/driver.h"

struct Piece {
  CUdeviceptr address = 0;
  size_t words = 0;
  uint32_t expected = 0;  // every word of it
};
extern std::vector<Piece> pieces;
// Adds one to every word of a piece; of the one at an index of a table.
extern CUfunction increment, increment_through;

void must(int status);
void say(const char* name, long long value);

// Graphs, of which the last one made is launched. "make_WAY PIECE", a line of standard input, makes
// one that adds one to every word of that piece; "change_WAY PIECE" has the graph do it to another.
// False if the line is not about graphs.
bool obey_about_graphs(const char* word, size_t piece);
void launch_graph(size_t piece);
