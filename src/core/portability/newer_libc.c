#include "core/portability/newer_libc.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void arc4random_buf(void* buffer, size_t size) {
  char* next = buffer;
  while (size > 0) {
    const ssize_t count = getrandom(next, size, 0);
    if (count < 0) {
      // Callers cannot be told, and what is not random must not be taken for it.
      if (errno != EINTR) abort();
      continue;
    }
    next += count;
    size -= (size_t)count;
  }
}

uint32_t arc4random(void) {
  uint32_t number;
  arc4random_buf(&number, sizeof(number));
  return number;
}
