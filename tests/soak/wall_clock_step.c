/* Preloaded into the processes of a node: their wall clock is off by what the file
 * LAMBENT_WALL_CLOCK_STEP holds, eight bytes of nanoseconds that whoever tests may change at any
 * time. The monotonic clock is left alone, as by those who set a machine's clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* step;
static int (*next_clock)(clockid_t, struct timespec*);

__attribute__((constructor)) static void find_step(void) {
  const char* path = getenv("LAMBENT_WALL_CLOCK_STEP");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    void* mapped = mmap(NULL, sizeof(*step), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) step = mapped;
    close(file);
  }
  next_clock = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int failed =
      next_clock == NULL ? (int)syscall(SYS_clock_gettime, clock, now) : next_clock(clock, now);
  if (failed != 0 || step == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
    return failed;
  const int64_t billion = 1000000000;
  const int64_t stepped = (int64_t)now->tv_sec * billion + now->tv_nsec + *step;
  now->tv_sec = stepped / billion;
  now->tv_nsec = stepped % billion;
  return 0;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec exact;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* where) {
  struct timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  if (where != NULL) *where = exact.tv_sec;
  return exact.tv_sec;
}
