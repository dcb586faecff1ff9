// Functions that the C library has since version 2.36 and that archives of Debian 12 (libstdc++,
// libarchive) call. Linked into programs and libraries that are to run where it is older, down
// to 2.34; hidden, so that no other library sees them.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if !__GLIBC_PREREQ(2, 36)
#ifdef __cplusplus
extern "C" {
#endif

// Random bytes of the kernel. Any thread. They end the process if the kernel refuses, and do not
// fail otherwise.
void arc4random_buf(void* buffer, size_t size);
uint32_t arc4random(void);

#ifdef __cplusplus
}
#endif
#endif
