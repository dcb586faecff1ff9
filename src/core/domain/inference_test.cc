#include "core/domain/inference.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

TEST(Shapes, CountTheirElementsAndOverflowIsNoCount) {
  EXPECT_EQ(element_count({}), 1u);
  EXPECT_EQ(element_count({2, 3, 4}), 24u);
  EXPECT_EQ(element_count({int64_t{1} << 40, 0, int64_t{1} << 40}), 0u);
  EXPECT_EQ(element_count({int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(element_count({2, -1}), std::nullopt);
  EXPECT_EQ(to_string(Shape{1, -1}), "[1,-1]");
}

TEST(Tensors, KeepTheirContentWhereverTheyMove) {
  const std::string elsewhere = "content of another's";
  Tensor views, owns;
  views.content = elsewhere;
  owns.own("short");
  std::vector<Tensor> moved;
  moved.push_back(std::move(views));
  moved.push_back(std::move(owns));
  moved.emplace_back();
  EXPECT_EQ(moved[0].content.data(), elsewhere.data());
  EXPECT_EQ(moved[1].content, "short");
  EXPECT_EQ(moved[1].content.data(), moved[1].owned.data());
  EXPECT_EQ(moved[2].content, "");
}

TEST(BytesElements, AreReadAsTheyWereWritten) {
  std::string content;
  append_bytes_element(content, "a");
  append_bytes_element(content, "");
  append_bytes_element(content, std::string_view("\0b", 2));
  EXPECT_EQ(*bytes_elements(content, 3),
            (std::vector<std::string_view>{"a", "", std::string_view("\0b", 2)}));
  EXPECT_TRUE(bytes_elements("", 0)->empty());
  for (const uint64_t count : {uint64_t{0}, uint64_t{2}, uint64_t{4}, ~uint64_t{0}}) {
    EXPECT_FALSE(bytes_elements(content, count).ok()) << count;
  }
  EXPECT_FALSE(bytes_elements(content.substr(0, content.size() - 1), 3).ok());
  EXPECT_FALSE(bytes_elements("\xff\xff\xff\xff", 1).ok());
}

}  // namespace
}  // namespace lambent
