#include "core/http/authority.h"

#include <gtest/gtest.h>

namespace lambent::http {
namespace {

using Kind = Authority::Kind;

TEST(Authority, IsReadAndWrittenInOneForm) {
  struct Case {
    const char* text;
    Kind kind;
    const char* written;
  };
  for (const Case& each : {
           Case{"localhost", Kind::kName, "localhost"},
           {"LocalHost:8980", Kind::kName, "localhost:8980"},
           {"gpu-1.example.", Kind::kName, "gpu-1.example"},
           {"gpu_1:", Kind::kName, "gpu_1"},
           {"127.0.0.1:80", Kind::kIpv4, "127.0.0.1:80"},
           {"[::1]:0", Kind::kIpv6, "[::1]:0"},
           {"[0:0:0:0:0:0:0:1]", Kind::kIpv6, "[::1]"},
           {"[FE80::A]:65535", Kind::kIpv6, "[fe80::a]:65535"},
           // Old ways of writing addresses are names here, so that none passes for a loopback one.
           {"127.1", Kind::kName, "127.1"},
           {"2130706433", Kind::kName, "2130706433"},
           {"0x7f.1", Kind::kName, "0x7f.1"},
       }) {
    const auto authority = parse_authority(each.text);
    ASSERT_TRUE(authority.has_value()) << each.text;
    EXPECT_EQ(authority->kind, each.kind) << each.text;
    EXPECT_EQ(to_string(*authority), each.written);
  }
}

TEST(Authority, RefusesEverythingElse) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {
           ""sv,
           "."sv,
           ":8980"sv,
           "a b"sv,
           "user@localhost"sv,
           "localhost:8980:8980"sv,
           "localhost:65536"sv,
           "localhost:-1"sv,
           "localhost:+1"sv,
           "localhost: 1"sv,
           "localhost/x"sv,
           "localhost\0"sv,
           "127.0.0.1\0.evil.test"sv,
           "::1"sv,
           "[::1"sv,
           "[::1]x"sv,
           "[::1%lo]"sv,
           "[127.0.0.1]"sv,
           "[]"sv,
           "b\xc3\xbc"
           "cher.test"sv,
       }) {
    EXPECT_FALSE(parse_authority(text).has_value()) << text;
  }
  EXPECT_FALSE(parse_authority(std::string(254, 'a')).has_value());
  EXPECT_TRUE(parse_authority(std::string(253, 'a')).has_value());
}

TEST(Authority, KnowsLoopback) {
  for (const char* text : {"localhost", "LOCALHOST.:1", "127.0.0.1", "127.255.0.9", "[::1]:80",
                           "[::ffff:127.0.0.1]"}) {
    EXPECT_TRUE(is_loopback(*parse_authority(text))) << text;
  }
  // Who owns a name decides where it leads, so a name that begins like an address is none of ours.
  for (const char* text : {"localhost.evil.test", "127.0.0.1.evil.test", "127.1", "0.0.0.0",
                           "128.0.0.1", "[::]", "[::2]", "[::ffff:10.0.0.1]", "a.localhost"}) {
    EXPECT_FALSE(is_loopback(*parse_authority(text))) << text;
  }
}

}  // namespace
}  // namespace lambent::http
