// The clock and the seeds of a program, held: so that its runs, and its version for the CPU, draw
// the same.
#include <time.h>
time_t time(time_t* at) {
  if (at != 0) *at = 7;
  return 7;
}
