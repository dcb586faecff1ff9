#include "core/http/multipart.h"

#include <gtest/gtest.h>

namespace lambent::http {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=XX";

TEST(Multipart, WhatWasMadeIsReadAgain) {
  const std::string zip("PK\0\r\n--X\r\n\xff", 12);
  const MultipartBody made = make_multipart({{"settings", "{}"}, {"code", zip}}, "XX");
  const auto parts = parse_multipart(made.content_type, made.body);
  ASSERT_TRUE(parts.ok()) << to_string(parts.error());
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].name, "settings");
  EXPECT_EQ((*parts)[0].content, "{}");
  EXPECT_EQ((*parts)[1].name, "code");
  EXPECT_EQ((*parts)[1].content, zip);
}

TEST(Multipart, ReadsWhatOtherClientsSend) {
  const std::string body =
      "a preamble\r\n--XX\r\ncontent-disposition: form-data; filename=\"a;b\"; name=code\r\n"
      "Content-Type: application/zip\r\n\r\nZIP\r\n--XX\r\n\r\nno name\r\n--XX--\r\nan epilogue";
  const auto parts = parse_multipart("Multipart/Form-Data; charset=utf-8; Boundary=\"XX\"", body);
  ASSERT_TRUE(parts.ok()) << to_string(parts.error());
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].content, "ZIP");
  EXPECT_EQ((*parts)[1].name, "");
  EXPECT_EQ((*parts)[1].content, "no name");
}

TEST(Multipart, RefusesWhatIsNotWhole) {
  const MultipartBody made = make_multipart({{"settings", "{}"}, {"code", "zip"}}, "XX");
  for (size_t size = 0; size + 4 < made.body.size(); ++size) {
    const auto parts = parse_multipart(kType, std::string_view(made.body).substr(0, size));
    ASSERT_FALSE(parts.ok()) << size;
    EXPECT_EQ(parts.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(parse_multipart("application/json", made.body).ok());
  EXPECT_FALSE(parse_multipart("multipart/form-data", made.body).ok());
}

TEST(Multipart, RefusesMorePartsThanAreSentEver) {
  const std::vector<Part> parts(kMostParts + 1, Part{"a", "b"});
  EXPECT_FALSE(parse_multipart(kType, make_multipart(parts, "XX").body).ok());
}

TEST(Multipart, APartIsFoundAsSoonAsItIsThere) {
  const MultipartBody made =
      make_multipart({{"file", std::string(300, 'x')}, {"model", "tiny"}, {"more", "y"}}, "XX");
  const size_t needed = made.body.find("tiny") + 4 + std::string_view("\r\n--XX").size();
  for (size_t size = 0; size <= made.body.size(); ++size) {
    const auto found = find_part(kType, std::string_view(made.body).substr(0, size), "model");
    ASSERT_TRUE(found.ok()) << size << to_string(found.error());
    ASSERT_EQ(found->has_value(), size >= needed) << size;
    EXPECT_EQ(found->value_or("tiny"), "tiny");
  }
  EXPECT_FALSE(find_part(kType, made.body, "other").ok()) << "it has ended without one";
  EXPECT_FALSE(find_part(kType, "--XXno line", "model").ok());
  EXPECT_FALSE(find_part("application/json", made.body, "model").ok());
}

TEST(Multipart, TheNameOfAFileIsNoName) {
  const std::string body =
      "--XX\r\nContent-Disposition: form-data; filename=\"a\\\"; name=model\"; "
      "name=\"file\"\r\n\r\n"
      "no\r\n--XX\r\nContent-Disposition: form-data; name=model\r\n\r\nyes\r\n--XX--\r\n";
  const auto found = find_part(kType, body, "model");
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ(**found, "yes");
}

}  // namespace
}  // namespace lambent::http
