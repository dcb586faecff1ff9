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

}  // namespace
}  // namespace lambent::http
