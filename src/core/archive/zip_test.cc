#include "core/archive/zip.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/archive/testing/testing.h"
#include "core/base/fd.h"
#include "core/base/testing/testing.h"

namespace lambent::archive {
namespace {

namespace fs = std::filesystem;

class Zip : public testing::Test {
 protected:
  Result<UnpackedZip> unpack(const std::string& zip, const ZipLimits& limits = {}) {
    return unpack_zip(zip, (folder_ / "out").string(), limits);
  }
  std::string content_of(const std::string& path) {
    return *read_file((folder_ / "out" / path).string(), 1 << 20);
  }
  // That the zip is refused, saying these words, and that nothing of it stays on the disk.
  void expect_refused(const std::string& zip, const std::string& words,
                      const ZipLimits& limits = {}) {
    const auto unpacked = unpack(zip, limits);
    ASSERT_FALSE(unpacked.ok()) << "expected: " << words;
    EXPECT_EQ(unpacked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(unpacked.error().message.find(words), std::string::npos) << unpacked.error().message;
    EXPECT_TRUE(fs::is_empty(folder_));
    EXPECT_EQ(check_zip(zip, limits).error(), unpacked.error());
  }
  void write(const std::string& path, const std::string& content) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << content;
  }

  TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Zip, UnpacksFilesFoldersLinksAndExecuteBits) {
  const std::string zip = HandmadeZip()
                              .add("bootstrap", "#!/bin/sh\n", S_IFREG | 0755)
                              .add("lib/", "", S_IFDIR | 0700)
                              .add("lib/a/data", "12345", S_IFREG | 0600)
                              .add("lib/a/link", "../../bootstrap", S_IFLNK | 0777)
                              .bytes();
  const auto unpacked = unpack(zip);
  ASSERT_TRUE(unpacked.ok()) << to_string(unpacked.error());
  EXPECT_EQ(unpacked->entries, 4u);
  EXPECT_EQ(unpacked->size, Bytes(15));
  EXPECT_EQ(content_of("lib/a/data"), "12345");
  EXPECT_EQ(content_of("lib/a/link"), "#!/bin/sh\n");
  EXPECT_EQ(fs::status(folder_ / "out/bootstrap").permissions(), fs::perms(0755));
  EXPECT_EQ(fs::status(folder_ / "out/lib/a/data").permissions(), fs::perms(0644));
  EXPECT_EQ(fs::status(folder_ / "out").permissions(), fs::perms(0755));
}

TEST_F(Zip, NamesAreTheBytesOfTheDirectoryWhateverTheLocale) {
  constexpr uint16_t kUtf8 = 1 << 11;
  const std::string zip = HandmadeZip()
                              .add("uml\xc3\xa4ute.txt", "u", S_IFREG | 0644, kUtf8)
                              .add("latin\xe4.txt", "l")
                              .add("of\\windows.txt", "w")
                              .bytes();
  const auto unpacked = unpack(zip);
  ASSERT_TRUE(unpacked.ok()) << to_string(unpacked.error());
  EXPECT_EQ(content_of("uml\xc3\xa4ute.txt"), "u");
  EXPECT_EQ(content_of("latin\xe4.txt"), "l");
  EXPECT_EQ(content_of("of/windows.txt"), "w");
}

TEST_F(Zip, WhatLeadsOutsideIsRefused) {
  expect_refused(HandmadeZip().add("ok", "").add("../evil", "x").bytes(), "'../evil'");
  expect_refused(HandmadeZip().add("a/../../evil", "x").bytes(), "outside");
  expect_refused(HandmadeZip().add("/tmp/evil", "x").bytes(), "absolute");
}

TEST_F(Zip, LinksThatLeadOutsideAreRefused) {
  expect_refused(HandmadeZip().add("l", "/etc", S_IFLNK | 0777).bytes(), "absolute");
  expect_refused(HandmadeZip().add("l", "..", S_IFLNK | 0777).bytes(), "outside");
  expect_refused(HandmadeZip()
                     .add("a/b/up", "../..", S_IFLNK | 0777)
                     .add("x", "a/b/up/../secret", S_IFLNK | 0777)
                     .bytes(),
                 "outside");
  expect_refused(HandmadeZip().add("l", "a", S_IFLNK | 0777).add("l/evil", "x").bytes(),
                 "below 'l'");
}

TEST_F(Zip, DevicesAreRefused) {
  expect_refused(HandmadeZip().add("d", "", S_IFCHR | 0666).bytes(), "'d'");
  expect_refused(HandmadeZip().add("d", "", S_IFBLK | 0666).bytes(), "'d'");
}

TEST_F(Zip, PipesAndSocketsNeverComeOutAsSuch) {
  const std::string zip =
      HandmadeZip().add("pipe", "", S_IFIFO | 0666).add("socket", "", S_IFSOCK | 0666).bytes();
  if (!unpack(zip).ok()) return;
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "out/pipe")));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "out/socket")));
}

TEST_F(Zip, ANameThatIsUsedTwiceIsRefused) {
  expect_refused(HandmadeZip().add("a", "1").add("a", "2").bytes(), "twice");
  expect_refused(HandmadeZip().add("a/b", "1").add("a//b", "2").bytes(), "twice");
  expect_refused(HandmadeZip().add("a/b", "1").add("a", "2").bytes(), "twice");
}

TEST_F(Zip, EncryptedEntriesAreRefused) {
  expect_refused(HandmadeZip().add("a", "123456789012345", S_IFREG | 0644, 1).bytes(), "encrypted");
}

TEST_F(Zip, WhatIsNoZipIsRefused) {
  expect_refused("", "not a zip file");
  expect_refused("hello", "not a zip file");
  expect_refused("PK\5\6" + std::string(18, '\0'), "the zip has no files");
  expect_refused(std::string(100'000, '\0'), "not a zip file");
  expect_refused(HandmadeZip().bytes(), "");
}

TEST_F(Zip, ADamagedOrCutZipIsRefused) {
  const std::string content(1000, 'x');
  std::string zip = HandmadeZip().add("file", content).add("other", content).bytes();
  std::string damaged = zip;
  damaged[50] ^= 1;
  expect_refused(damaged, "'file'");
  expect_refused(zip.substr(0, zip.size() / 2), "");
}

TEST_F(Zip, TooManyEntriesAreRefused) {
  HandmadeZip zip;
  for (int i = 0; i < 6; ++i) zip.add(std::to_string(i), "");
  expect_refused(zip.bytes(), "more than 5 entries", {.entries = 5});
  // One entry may imply many folders.
  expect_refused(HandmadeZip().add("a/b/c/d/e/f/g", "").bytes(), "too many", {.entries = 5});
}

TEST_F(Zip, ABombIsStoppedEarly) {
  write("in/zeros", std::string(8 << 20, '\0'));
  const auto zip = make_zip((folder_ / "in").string());
  ASSERT_TRUE(zip.ok());
  EXPECT_LT(zip->size(), 100'000u);
  fs::remove_all(folder_ / "in");
  expect_refused(*zip, "more than 1 MiB", {.unzipped = Bytes::mib(1)});
  EXPECT_TRUE(check_zip(*zip, {.unzipped = Bytes::mib(8)}).ok());
}

TEST_F(Zip, OneThatIsTooLargeIsRefused) {
  expect_refused(HandmadeZip().add("a", std::string(5000, 'x')).bytes(), "at most",
                 {.zipped = Bytes(4096)});
}

TEST_F(Zip, AnExistingDestinationIsLeftAsItIs) {
  write("out/kept", "1");
  ASSERT_TRUE(unpack(HandmadeZip().add("a", "2").bytes()).ok());
  EXPECT_EQ(content_of("kept"), "1");
  EXPECT_FALSE(fs::exists(folder_ / "out/a"));
  EXPECT_FALSE(unpack("no zip").ok());
}

TEST_F(Zip, ADestinationThatCannotBeMadeIsNamed) {
  const auto unpacked = unpack_zip(HandmadeZip().add("a", "").bytes(), folder_ / "none/out");
  ASSERT_FALSE(unpacked.ok());
  EXPECT_NE(unpacked.error().message.find("none/out"), std::string::npos);
}

TEST_F(Zip, WhatAnEndedUnpackingLeftIsRemoved) {
  write("abc.partial-x1y2z3/file", "1");
  write("abc/file", "1");
  remove_partial(folder_.string());
  EXPECT_FALSE(fs::exists(folder_ / "abc.partial-x1y2z3"));
  EXPECT_TRUE(fs::exists(folder_ / "abc/file"));
}

TEST_F(Zip, AFolderComesBackFromItsZip) {
  write("in/app.py", "print(1)\n");
  write("in/bootstrap", "#!/bin/sh\n");
  fs::permissions(folder_ / "in/bootstrap", fs::perms(0755));
  write("in/lib/d\xc3\xa9j\xc3\xa0.txt", std::string(200'000, 'y'));
  fs::create_symlink("../app.py", folder_ / "in/lib/link");
  fs::create_directory(folder_ / "in/empty");
  const auto zip = make_zip((folder_ / "in").string());
  ASSERT_TRUE(zip.ok()) << to_string(zip.error());
  const auto unpacked = unpack(*zip);
  ASSERT_TRUE(unpacked.ok()) << to_string(unpacked.error());
  EXPECT_EQ(content_of("lib/link"), "print(1)\n");
  EXPECT_EQ(content_of("lib/d\xc3\xa9j\xc3\xa0.txt"), std::string(200'000, 'y'));
  EXPECT_EQ(fs::status(folder_ / "out/bootstrap").permissions(), fs::perms(0755));
  EXPECT_TRUE(fs::is_directory(folder_ / "out/empty"));
}

TEST_F(Zip, TheSameContentsGiveTheSameBytes) {
  for (const char* folder : {"one", "two"}) {
    write(std::string(folder) + "/b", "2");
    write(std::string(folder) + "/a/c", "1");
  }
  fs::last_write_time(folder_ / "two/b", fs::file_time_type::clock::now() - std::chrono::hours(99));
  EXPECT_EQ(*make_zip((folder_ / "one").string()), *make_zip((folder_ / "two").string()));
}

TEST_F(Zip, OneEntryMayBeLeftOut) {
  for (const char* file : {"one/a", "two/a", "two/left", "two/in/left"}) write(file, "1");
  fs::create_directory(folder_ / "one/in");
  write("one/in/left", "1");
  const auto zip = make_zip((folder_ / "two").string(), {}, "left");
  ASSERT_TRUE(zip.ok());
  EXPECT_EQ(*zip, *make_zip((folder_ / "one").string()));
  write("alone/left", "1");
  EXPECT_EQ(*make_zip((folder_ / "alone").string(), {}, "left"),
            *make_zip((folder_ / "alone").string()));
}

TEST_F(Zip, WhatIsNoCodeIsLeftOut) {
  for (const char* folder : {"one", "two"}) write(std::string(folder) + "/lib/a.py", "1");
  for (const char* file : {".git/config", "lib/.svn/entries", "env/pyvenv.cfg", "env/lib/x.py",
                           "lib/__pycache__/a.pyc"}) {
    write(std::string("two/") + file, "1");
  }
  fs::create_symlink("/usr/bin/python3", folder_ / "two/env/python3");
  const auto zip = make_zip((folder_ / "two").string(), {.entries = 2});
  ASSERT_TRUE(zip.ok()) << to_string(zip.error());
  EXPECT_EQ(*zip, *make_zip((folder_ / "one").string()));
}

TEST_F(Zip, AFolderThatIsTooLargeIsRefusedWithItsLargestFile) {
  write("in/a", "1");
  write("in/large", std::string(5000, 'a'));
  const auto zip = make_zip((folder_ / "in").string(), {.unzipped = Bytes(4999)});
  ASSERT_FALSE(zip.ok());
  EXPECT_NE(zip.error().message.find("large (4.9 KiB)"), std::string::npos) << zip.error().message;
}

TEST_F(Zip, AFolderThatIsNoPackageIsRefused) {
  write("in/a", std::string(5000, 'a'));
  const std::string in = (folder_ / "in").string();
  EXPECT_FALSE(make_zip(in, {.unzipped = Bytes(4999)}).ok());
  EXPECT_FALSE(make_zip(in, {.zipped = Bytes(10)}).ok());
  EXPECT_FALSE(make_zip((folder_ / "none").string()).ok());
  fs::create_directory(folder_ / "hollow");
  EXPECT_NE(make_zip((folder_ / "hollow").string()).error().message.find("empty"),
            std::string::npos);
  fs::create_symlink("/etc/passwd", folder_ / "in/link");
  EXPECT_NE(make_zip(in).error().message.find("in/link"), std::string::npos);
  EXPECT_FALSE(make_zip(in, {.entries = 1}).ok());
  fs::remove(folder_ / "in/link");
  ASSERT_EQ(::mkfifo((folder_ / "in/pipe").c_str(), 0600), 0);
  EXPECT_NE(make_zip(in).error().message.find("in/pipe"), std::string::npos);
}

TEST_F(Zip, TheDigestIsThatOfLambda) {
  EXPECT_EQ(code_sha256("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  EXPECT_EQ(code_folder_name(code_sha256("abc")), "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
}

}  // namespace
}  // namespace lambent::archive
