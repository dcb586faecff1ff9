#include "gpu/bundle/manifest.h"

#include <gtest/gtest.h>

namespace lambent::bundle {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.name = "matmul";
  manifest.content_sha256 = "00ff";
  manifest.kernels = {{"matmul_16", "matmul<16>", "_Z6matmulILi16EEvPf", {8, 4}, 2048, 1024},
                      {"nothing", "nothing", "", {}, 0, 256}};
  manifest.images = {{"host-x86_64", "host-x86_64.so"}, {"sm_90", "sm_90.cubin"}};
  manifest.sources = {"src/matmul.cu"};
  return manifest;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_json(example());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ManifestTest, WhatIsWrittenIsRead) {
  const auto read = parse_manifest(to_json(example()));
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(*read, example());
}

TEST(ManifestTest, ForeignContentIsRefusedWithTheFieldNamed) {
  const std::pair<std::string, std::string> cases[] = {
      {changed("\"abi\": 1", "\"abi\": 2"), "has ABI 2"},
      {changed("\"abi\": 1", "\"abi\": -1"), "'abi'"},
      {changed("\"host-x86_64.so\"", "\"../evil.so\""), "leaves the bundle"},
      {changed("\"host-x86_64.so\"", "\"/etc/evil.so\""), "no relative path"},
      {changed("\"host-x86_64.so\"", "\"a//b\""), "leaves the bundle"},
      {changed("\"src/matmul.cu\"", "\"src/..\""), "leaves the bundle"},
      {changed("\"name\": \"nothing\"", "\"name\": \"matmul_16\""), "appears twice"},
      {changed("2048", "99999999"), "'static_shared_bytes'"},
      {changed("1024", "1025"), "'max_threads'"},
      {changed("\"matmul_16\"", "7"), "'name'"},
      {"[]", "not a JSON object"},
      {"{", "not a JSON object"},
      {"", "not a JSON object"},
  };
  for (const auto& [text, message] : cases) {
    const auto read = parse_manifest(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(read.error().message.find(message), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace lambent::bundle
