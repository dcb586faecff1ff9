#include "core/base/file_version.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lambent {
namespace {

TEST(FileVersion, StaysUntilSomebodyWritesToTheFile) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("lambent-file-version-test-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "f";
  EXPECT_EQ(open_to_read(path).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(write_file_atomically(path, "ten bytes.", false).ok());
  const auto file = open_to_read(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->is_regular);
  EXPECT_EQ(file->version.size_bytes, 10);
  EXPECT_EQ(version_of(file->fd.get()).value(), file->version);

  // As long, but written at another time.
  const timespec times[] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 5}};
  ASSERT_EQ(futimens(file->fd.get(), times), 0);
  const auto later = version_of(file->fd.get());
  ASSERT_TRUE(later.ok());
  EXPECT_EQ(later->modified_ns, 1'000'000'005);
  EXPECT_NE(*later, file->version);
  std::ofstream(path, std::ios::app) << "more";
  EXPECT_EQ(version_of(file->fd.get()).value().size_bytes, 14);

  EXPECT_EQ(open_to_read(folder).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(version_of(-1).ok());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lambent
