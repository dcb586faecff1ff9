#include "node/sandbox/zygote_memory.h"

#include <gtest/gtest.h>

namespace lambent::sandbox {
namespace {

const std::string kPrivate =
    "5581-5582 r-xp 00000000 08:01 12 /usr/bin/python3.11\n"
    "7f00-7f10 rw-p 00000000 00:00 0 \n"
    "7f20-7f30 rw-p 00000000 08:01 14 /tmp/private copy\n"
    "7ffc-7ffd rw-p 00000000 00:00 0 [stack]\n";

TEST(ZygoteMemoryTest, WhatIsPrivateOrAFileOfTheSystemIsNotShared) {
  EXPECT_EQ(shared_memory_in(""), "");
  EXPECT_EQ(shared_memory_in(kPrivate), "");
  EXPECT_EQ(
      shared_memory_in(kPrivate + "7f40-7f41 r--s 00000000 08:01 15 /usr/lib/x/gconv.cache\n" +
                       "7f41-7f42 r-xs 00000000 08:01 16 /opt/lambent/python/lib/a.so\n"),
      "");
}

TEST(ZygoteMemoryTest, WhatOthersCanSeeChangeIsFound) {
  for (const char* shared : {
           "7f40-7f41 rw-s 00000000 00:01 9 /dev/zero (deleted)",
           "7f40-7f41 r--s 00000000 00:01 9 /dev/zero (deleted)",
           "7f40-7f41 rw-s 00000000 00:01 9 /memfd:x (deleted)",
           "7f40-7f41 rw-s 00000000 00:01 9 /SYSV00000000 (deleted)",
           "7f40-7f41 rw-s 00000000 08:01 9 /usr/lib/writable",
           "7f40-7f41 ---s 00000000 00:01 9 /tmp/file",
           "7f40-7f41 rw-s 00000000 00:00 0 ",
           "nonsense",
       }) {
    EXPECT_EQ(shared_memory_in(kPrivate + shared + "\n" + kPrivate), shared);
    EXPECT_EQ(shared_memory_in(kPrivate + shared), shared);
  }
}

}  // namespace
}  // namespace lambent::sandbox
