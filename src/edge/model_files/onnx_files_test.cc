// ONNX models and the files they keep tensors in.
#include "edge/model_files/onnx_files.h"

#include <gmock/gmock.h>

namespace lambent::model_files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
// A field of that number that holds bytes.
std::string block(int number, const std::string& content) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(content.size()) + content;
}
std::string entry(const std::string& key, const std::string& value) {
  return block(13, block(1, key) + block(2, value));
}
// A tensor whose content is in the file.
std::string tensor(const std::string& file) {
  return entry("location", file) + entry("offset", "0") + block(8, "w");
}
std::string model_with(const std::string& graph) {
  return varint(1 << 3) + varint(8) + block(7, graph);
}

TEST(OnnxFiles, TensorsAnywhereNameTheirFiles) {
  const std::string inner = block(5, tensor("inner/b.data"));
  const std::string attribute = block(6, inner) + block(5, tensor("c.safetensors"));
  const std::string graph = block(2, "main") + block(5, tensor("a.data")) +
                            block(5, tensor("a.data")) +
                            block(5, block(9, std::string(1000, 'x'))) +
                            block(1, block(5, attribute)) + block(15, block(1, tensor("d.data")));
  EXPECT_THAT(external_files(model_with(graph)).value(),
              ElementsAre("a.data", "c.safetensors", "d.data", "inner/b.data"));
  EXPECT_THAT(external_files(model_with(block(2, "none"))).value(), IsEmpty());
}

TEST(OnnxFiles, PlacesOutsideOfTheFolderAreRefused) {
  for (const char* place : {"../a.data", "/etc/passwd", "", "a/../../b", "./a", "a//b"}) {
    const auto found = external_files(model_with(block(5, tensor(place))));
    ASSERT_FALSE(found.ok()) << place;
    EXPECT_THAT(found.error().message, HasSubstr("no file beside it"));
  }
}

TEST(OnnxFiles, WhatIsNoModelIsRefused) {
  const std::string model = model_with(block(5, tensor("a.data")));
  for (size_t size = 0; size < model.size(); ++size) {
    EXPECT_FALSE(external_files(model.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(external_files("<!DOCTYPE html><html></html>").ok());
  EXPECT_FALSE(external_files("{\"error\": \"no\"}").ok());
}

TEST(OnnxFiles, GraphsDeepInEachOtherAndFilesWithoutEndAreRefused) {
  std::string graph = block(2, "innermost");
  for (int i = 0; i < 100; ++i) graph = block(1, block(5, block(6, graph)));
  EXPECT_THAT(external_files(model_with(graph)).error().message, HasSubstr("too deep"));
  std::string many;
  for (size_t i = 0; i <= kMostExternalFiles; ++i) many += block(5, tensor(std::to_string(i)));
  EXPECT_EQ(external_files(model_with(many)).error().code, ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace lambent::model_files
