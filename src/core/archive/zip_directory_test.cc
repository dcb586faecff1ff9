#include "core/archive/zip_directory.h"

#include <gtest/gtest.h>

#include "core/archive/testing/testing.h"
#include "core/archive/zip.h"

namespace lambent::archive {
namespace {

constexpr size_t kMost = 100;

// Two entries; the directory follows them.
std::string two_entries() { return HandmadeZip().add("app.py", "code").add("b", "bb").bytes(); }

// The place of the n-th header with this mark.
size_t header(const std::string& zip, std::string_view mark, size_t which = 0) {
  size_t at = zip.find(mark);
  for (; which > 0; --which) at = zip.find(mark, at + 1);
  return at;
}
constexpr std::string_view kLocal = "PK\3\4";
constexpr std::string_view kCentral = "PK\1\2";
constexpr std::string_view kEnd = "PK\5\6";

std::string patched(std::string zip, size_t at, std::string_view bytes) {
  return zip.replace(at, bytes.size(), bytes);
}

void expect_refused(const std::string& zip, std::string_view why) {
  const auto directory = read_zip_directory(zip, kMost);
  ASSERT_FALSE(directory.ok()) << why;
  EXPECT_EQ(directory.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(directory.error().message.find(why), std::string::npos) << directory.error().message;
  EXPECT_FALSE(check_zip(zip).ok()) << why;
}

TEST(ZipDirectory, ListsWhatBothHeadersSay) {
  const auto directory = read_zip_directory(two_entries(), kMost);
  ASSERT_TRUE(directory.ok()) << directory.error().message;
  ASSERT_EQ(directory->records.size(), 2u);
  EXPECT_EQ(directory->records[0].name, "app.py");
  EXPECT_EQ(directory->records[0].size, 4u);
  EXPECT_EQ(directory->records[1].name, "b");
}

TEST(ZipDirectory, AZipBehindAShebangIsRead) {
  const std::string zip = "#!/usr/bin/env python3\n" + two_entries();
  const auto directory = read_zip_directory(zip, kMost);
  ASSERT_TRUE(directory.ok()) << directory.error().message;
  EXPECT_EQ(directory->records[0].offset, 23u);
  EXPECT_TRUE(check_zip(zip).ok()) << check_zip(zip).error().message;
}

TEST(ZipDirectory, ManyEntriesOverOneHeaderAreRefused) {
  const std::string zip = two_entries();
  // The second entry's place becomes the first one's.
  const size_t second = header(zip, kCentral, 1);
  expect_refused(patched(zip, second + 42, std::string(4, '\0')), "its own header calls it");
  // With the same name as well.
  const std::string same = HandmadeZip().add("a", "x").add("a", "x").bytes();
  expect_refused(patched(same, header(same, kCentral, 1) + 42, std::string(4, '\0')), "overlaps");
}

TEST(ZipDirectory, HeadersThatDifferAreRefused) {
  const std::string zip = two_entries();
  const size_t local = header(zip, kLocal);
  const size_t central = header(zip, kCentral);
  expect_refused(patched(zip, local + 30, "x"), "its own header calls it 'xpp.py'");
  expect_refused(patched(zip, central + 46, "x"), "its own header calls it 'app.py'");
  expect_refused(patched(zip, local + 8, std::string("\10\0", 2)), "different methods");
  expect_refused(patched(zip, local + 22, "\7"), "different sizes");
  expect_refused(patched(zip, central + 24, "\7"), "it is stored, and has two sizes");
  expect_refused(patched(zip, local + 14, "zzzz"), "different sums");
  expect_refused(patched(zip, local + 7, "\10"), "different flags");
}

TEST(ZipDirectory, EncryptedEntriesAndStrangeMethodsAreRefused) {
  const std::string zip = two_entries();
  const size_t central = header(zip, kCentral);
  expect_refused(HandmadeZip().add("secret", "x", S_IFREG | 0644, 1).bytes(), "it is encrypted");
  expect_refused(patched(zip, central + 8, "\1"), "it is encrypted");
  expect_refused(patched(zip, central + 10, std::string("\143\0", 2)), "by method 99");
  expect_refused(patched(zip, central + 10, std::string("\14\0", 2)), "by method 12");
}

TEST(ZipDirectory, CountsThatLieAreRefused) {
  const std::string zip = two_entries();
  const size_t end = header(zip, kEnd);
  expect_refused(patched(zip, end + 8, std::string("\1\0\1\0", 4)), "holds more than that");
  expect_refused(patched(zip, end + 8, std::string("\3\0\3\0", 4)), "ends after 2");
  expect_refused(patched(zip, end + 8, std::string("\1\0", 2)), "several files");
  expect_refused(patched(zip, end + 4, std::string("\1\0", 2)), "several files");
  expect_refused(patched(zip, end + 12, "\377\377"), "not where its end says");
  expect_refused(patched(zip, end + 16, "\377\377"), "not where its end says");
  HandmadeZip many;
  for (size_t i = 0; i <= kMost; ++i) many.add(std::to_string(i), "");
  expect_refused(many.bytes() + "x", "does not end where it says");
  EXPECT_FALSE(read_zip_directory(many.bytes(), kMost).ok());
  EXPECT_TRUE(read_zip_directory(many.bytes(), kMost + 1).ok());
}

TEST(ZipDirectory, WhatIsNoFileFolderOrLinkIsRefused) {
  const std::pair<mode_t, const char*> types[] = {{S_IFIFO, "it is a fifo"},
                                                  {S_IFSOCK, "it is a socket"},
                                                  {S_IFCHR, "it is a device"},
                                                  {S_IFBLK, "it is a device"},
                                                  {0050000, "no file, folder or symbolic link"}};
  for (const auto& [type, why] : types) {
    expect_refused(HandmadeZip().add("odd", "", type | 0644).bytes(), why);
  }
}

TEST(ZipDirectory, PlacesThatLieOutsideAreRefused) {
  const std::string zip = two_entries();
  const size_t central = header(zip, kCentral);
  expect_refused(patched(zip, central + 42, "\377\377\377\177"), "not where the zip's directory");
  expect_refused(patched(zip, central + 42, "\1"), "not where the zip's directory");
  // Sizes that reach into the directory, in both headers.
  const std::string sizes("\377\377\1\0\377\377\1\0", 8);
  std::string long_one = patched(zip, header(zip, kLocal, 1) + 18, sizes);
  long_one = patched(long_one, header(zip, kCentral, 1) + 20, sizes);
  expect_refused(long_one, "not where the zip's directory");
}

TEST(ZipDirectory, NoPrefixOfAZipIsTaken) {
  const std::string zip = two_entries();
  for (size_t size = 0; size < zip.size(); ++size) {
    EXPECT_FALSE(read_zip_directory(zip.substr(0, size), kMost).ok()) << size;
  }
}

}  // namespace
}  // namespace lambent::archive
