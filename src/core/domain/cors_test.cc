#include "core/domain/cors.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

TEST(Cors, IsReadAsItIsWritten) {
  const Cors cors{.allow_origins = {"https://app.example.org", "http://localhost:3000"},
                  .allow_methods = {"GET", "POST"},
                  .allow_headers = {"content-type"},
                  .expose_headers = {"x-lambent-start"},
                  .allow_credentials = true,
                  .max_age_s = 60};
  EXPECT_EQ(parse_cors(text_of(cors)).value(), cors);
  EXPECT_EQ(parse_cors(text_of(Cors())).value(), Cors());
}

TEST(Cors, RefusesWhatNoBrowserWouldMean) {
  for (const char* text :
       {"", "[]", "{", R"({"allow_origins":"*"})", R"({"allow_origins":[1]})",
        R"({"allow_origins":["app.example.org"]})", R"({"allow_origins":["https://a/b"]})",
        R"({"allow_origins":["https://A.example"]})", R"({"allow_origins":["null"]})",
        R"({"allow_origins":["*"],"allow_credentials":true})", R"({"allow_methods":["GE T"]})",
        R"({"allow_headers":["a\r\nb"]})", R"({"max_age_s":-1})", R"({"max_age_s":86401})",
        R"({"origins":["*"]})", R"({"allow_credentials":1})"}) {
    EXPECT_EQ(parse_cors(text).error().code, ErrorCode::kInvalidArgument) << text;
  }
  std::string many = R"({"allow_headers":["x")";
  for (int i = 0; i < 100; ++i) many += R"(,"x")";
  EXPECT_FALSE(parse_cors(many + "]}").ok());
  EXPECT_FALSE(parse_cors(R"({"allow_headers":[")" + std::string(300, 'x') + "\"]}").ok());
}

TEST(Cors, AllowsWhatItNamesAndNothingLikeIt) {
  const Cors named{.allow_origins = {"https://app.example.org"}, .allow_methods = {"GET"}};
  EXPECT_TRUE(allows_origin(named, "https://app.example.org"));
  for (const char* origin : {"", "null", "http://app.example.org", "https://app.example.org:444",
                             "https://app.example.org.evil", "https://example.org"}) {
    EXPECT_FALSE(allows_origin(named, origin)) << origin;
  }
  EXPECT_TRUE(allows_method(named, "GET"));
  EXPECT_FALSE(allows_method(named, "get"));
  EXPECT_FALSE(allows_method(named, "POST"));
  const Cors any{.allow_origins = {"*"}, .allow_methods = {"*"}};
  EXPECT_TRUE(allows_origin(any, "null"));
  EXPECT_TRUE(allows_method(any, "DELETE"));
  EXPECT_FALSE(allows_origin(Cors(), "https://app.example.org"));
}

}  // namespace
}  // namespace lambent
