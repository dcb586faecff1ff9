/* The least program: one byte of output. Built static and dynamic for coldstart_bench. */
#include <unistd.h>

int main(void) { return write(1, "h", 1) == 1 ? 0 : 1; }
