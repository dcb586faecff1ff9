#include "gpu/bundle/bundle.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/fd.h"
#include "gpu/bundle/elf_module.h"

namespace lambent::bundle {
namespace {

namespace fs = std::filesystem;

// A bundle of two files in a folder of its own.
class BundleTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/bundle_test.XXXXXX";
    folder_ = mkdtemp(name);
    write("k.cu", "source");
    for (const char* file : {"host-x86_64.so", "sm_80.cubin", "sm_90.cubin", "ptx"}) {
      write(file, file);
    }
    manifest_.name = "k";
    manifest_.sources = {"k.cu"};
    manifest_.images = {{"host-x86_64", "host-x86_64.so"},
                        {"compute_80", "ptx"},
                        {"sm_80", "sm_80.cubin"},
                        {"sm_90", "sm_90.cubin"}};
    manifest_.kernels = {{"k", "k<1>", "_Z1k", {4}, 0, 1024}};
    auto hash = content_hash(folder_, manifest_);
    ASSERT_TRUE(hash.ok());
    manifest_.content_sha256 = *hash;
    write(kManifestFile, to_json(manifest_));
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& file, std::string_view text) {
    ASSERT_TRUE(write_file_atomically(folder_ + "/" + file, text, false).ok());
  }
  std::string files_for(int major, int minor) {
    std::string files;
    for (const auto& image : Bundle::open(folder_)->images_for(major, minor)) {
      files += fs::path(image.path).filename().string() + (image.device ? " " : "");
    }
    return files;
  }

  std::string folder_;
  Manifest manifest_;
};

TEST_F(BundleTest, PtxForOneArchitectureOrOneGenerationIsOfferedToTheseAlone) {
  for (const auto& [target, file] : {std::pair("compute_75", "75"), std::pair("compute_90a", "90a"),
                                     std::pair("compute_100f", "100f")}) {
    write(file, file);
    manifest_.images.push_back({target, file});
  }
  auto hash = content_hash(folder_, manifest_);
  ASSERT_TRUE(hash.ok());
  manifest_.content_sha256 = *hash;
  write(kManifestFile, to_json(manifest_));
  EXPECT_EQ(files_for(7, 5), "75 host-x86_64.so");
  EXPECT_EQ(files_for(9, 0), "sm_90.cubin 90a ptx 75 host-x86_64.so");
  EXPECT_EQ(files_for(9, 1), "sm_90.cubin ptx 75 host-x86_64.so");
  EXPECT_EQ(files_for(10, 3), "100f ptx 75 host-x86_64.so");
  EXPECT_EQ(files_for(12, 0), "ptx 75 host-x86_64.so");
}

TEST_F(BundleTest, ADeviceIsOfferedItsOwnCodeFirstThenPortableCodeThenTheHost) {
  EXPECT_EQ(files_for(9, 0), "sm_90.cubin ptx host-x86_64.so");
  EXPECT_EQ(files_for(8, 6), "sm_80.cubin ptx host-x86_64.so");
  EXPECT_EQ(files_for(10, 0), "ptx host-x86_64.so");
  EXPECT_EQ(files_for(7, 0), "host-x86_64.so");
}

TEST_F(BundleTest, AKernelIsFoundUnderTheNameThatTheImageHas) {
  const auto bundle = Bundle::open(folder_);
  ASSERT_TRUE(bundle.ok());
  const auto images = bundle->images_for(9, 0);
  EXPECT_EQ(*bundle->symbol_of("k", images.front()), "_Z1k");
  EXPECT_EQ(*bundle->symbol_of("k", images.back()), "k");
  const auto unknown = bundle->symbol_of("j", images.back());
  EXPECT_EQ(unknown.error().message, "bundle 'k' has no kernel 'j'; it has: k");
}

TEST_F(BundleTest, AnyChangedFileIsNoticed) {
  for (const char* file : {"k.cu", "host-x86_64.so", "ptx"}) {
    SetUp();
    write(file, "changed");
    const auto bundle = Bundle::open(folder_);
    ASSERT_FALSE(bundle.ok()) << file;
    EXPECT_EQ(bundle.error().code, ErrorCode::kDataLoss);
    fs::remove_all(folder_);
  }
  SetUp();
  manifest_.kernels[0].parameter_sizes = {8};
  write(kManifestFile, to_json(manifest_));
  EXPECT_EQ(Bundle::open(folder_).error().code, ErrorCode::kDataLoss);
}

TEST_F(BundleTest, AFolderWithoutManifestIsNoBundle) {
  EXPECT_EQ(Bundle::open("/tmp/no-such-bundle").error().code, ErrorCode::kNotFound);
}

TEST(ElfModuleTest, ForeignAndTruncatedFilesAreRefused) {
  EXPECT_FALSE(thread_local_symbols("").ok());
  EXPECT_FALSE(thread_local_symbols("#!/bin/sh").ok());
  const auto self = read_file("/proc/self/exe", 512 * 1024 * 1024);
  ASSERT_TRUE(self.ok());
  EXPECT_TRUE(thread_local_symbols(*self).ok());
  EXPECT_FALSE(thread_local_symbols(self->substr(0, self->size() / 2)).ok());
}

}  // namespace
}  // namespace lambent::bundle
