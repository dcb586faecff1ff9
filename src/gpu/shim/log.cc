#include "gpu/shim/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "gpu/shim/environment.h"

namespace lambent::shim {

void log_line(const char* format, ...) {
  const char* path = log_path();
  if (path == nullptr) return;
  const int error_before = errno;
  char line[512];
  int length = snprintf(line, sizeof(line), "lambent-shim[%d]: ", static_cast<int>(getpid()));
  va_list arguments;
  va_start(arguments, format);
  const int more = vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
  va_end(arguments);
  if (more > 0) length += more;
  if (length > static_cast<int>(sizeof(line)) - 2) length = sizeof(line) - 2;
  line[length++] = '\n';
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd >= 0) {
    if (write(fd, line, length) < 0) errno = 0;
    close(fd);
  }
  errno = error_before;
}

}  // namespace lambent::shim
