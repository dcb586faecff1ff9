#include "gpu/executor/constant_files.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>

#include "gpu/executor/file_io.h"

namespace lambent::executor {
namespace {

OwnedFd file_of(const std::string& content) {
  OwnedFd file(memfd_create("constant", MFD_CLOEXEC));
  EXPECT_TRUE(write_fully(file.get(), 0, content.data(), content.size()).ok());
  return file;
}
// Longer than what is compared at once, with this at one place of it.
std::string content_with(size_t at, char what) {
  std::string content(2'500'000, 'w');
  content[at] = what;
  return content;
}

TEST(ConstantFiles, FilesOfOneContentAreOne) {
  ConstantFiles files;
  for (const std::string& content : {content_with(0, 'w'), std::string("short"), std::string()}) {
    const OwnedFd one = file_of(content), other = file_of(content);
    const auto first = files.take(one.get()), second = files.take(other.get());
    ASSERT_TRUE(first.ok());
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second->name, first->name);
    EXPECT_EQ(second->file, first->file);
    EXPECT_EQ(files.take(other.get())->name, first->name) << "known from before";
  }
}

TEST(ConstantFiles, FilesThatDifferAnywhereAreTwo) {
  ConstantFiles files;
  const OwnedFd one = file_of(content_with(0, 'w'));
  const auto first = files.take(one.get());
  // At the begin, in the middle, at the end, and where only a look at everything finds it.
  for (const size_t at : {0, 1'250'000, 2'499'999, 700'000, 1'900'000}) {
    const OwnedFd other = file_of(content_with(at, 'x'));
    EXPECT_NE(files.take(other.get())->name, first->name) << at;
  }
  const OwnedFd longer = file_of(content_with(0, 'w') + "w");
  EXPECT_NE(files.take(longer.get())->name, first->name);
}

TEST(ConstantFiles, AContentThatNobodyHasAnyMoreIsForgotten) {
  ConstantFiles files;
  const OwnedFd one = file_of("weights"), other = file_of("weights");
  auto first = files.take(one.get());
  auto second = files.take(other.get());
  const DeviceName name = first->name;
  first = second;  // the other keeps it
  EXPECT_EQ(files.take(one.get())->name, name);
  first = files.take(file_of("something else").get());
  second = first;
  EXPECT_EQ(files.take(other.get())->name, *name_of_file(other.get()));
  EXPECT_NE(*name_of_file(other.get()), name);
}

}  // namespace
}  // namespace lambent::executor
