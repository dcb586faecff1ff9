#include "core/domain/secret.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

std::optional<std::string> find(const std::string& name) {
  if (name == "pw") return "p4ss";
  if (name == "tricky") return "${secret:pw}";
  if (name == "binary") return std::string("a\0b", 3);
  return std::nullopt;
}

TEST(SecretTest, AReferenceBecomesItsValueOrAPath) {
  const auto resolved = resolve_secrets({{"URL", "db://u:${secret:pw}@h/${secret:pw}"},
                                         {"KEY", "${secret-file:binary}"},
                                         {"PLAIN", "$secret {secret:pw} ${other}"}},
                                        find);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->variables, (Variables{{"URL", "db://u:p4ss@h/p4ss"},
                                            {"KEY", "/run/secrets/binary"},
                                            {"PLAIN", "$secret {secret:pw} ${other}"}}));
  EXPECT_EQ(resolved->files, (Variables{{"binary", std::string("a\0b", 3)}}));
}

TEST(SecretTest, AValueThatLooksLikeAReferenceIsNone) {
  EXPECT_EQ(resolve_secrets({{"A", "${secret:tricky}"}}, find)->variables.at("A"), "${secret:pw}");
}

TEST(SecretTest, OneThatDoesNotExistOrCannotBeAVariableIsNamed) {
  const auto missing = resolve_secrets({{"A", "${secret:nothing}"}}, find);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(missing.error().message.find("'nothing'"), std::string::npos);
  EXPECT_EQ(resolve_secrets({{"A", "${secret:binary}"}}, find).error().code,
            ErrorCode::kFailedPrecondition);
}

TEST(SecretTest, NamesAreFoundInEveryVariable) {
  EXPECT_EQ(secret_names({{"A", "${secret:a}${secret-file:b}"}, {"B", "x${secret:a}"}, {"C", ""}})
                .value(),
            (std::set<std::string>{"a", "b"}));
}

TEST(SecretTest, MalformedReferencesNameTheVariable) {
  for (const char* text : {"${secret:", "${secret:}", "${secret:a b}", "${secret:../x}",
                           "${secret-file:.x}", "${secret:a/b}"}) {
    const auto names = secret_names({{"VARIABLE", text}});
    ASSERT_FALSE(names.ok()) << text;
    EXPECT_EQ(names.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(names.error().message.find("VARIABLE"), std::string::npos);
  }
}

TEST(SecretTest, ANameIsOneOfAFile) {
  for (const char* name : {"a", "A-b_c.9", "9"}) EXPECT_TRUE(validate_secret_name(name).ok());
  for (const char* name : {"", ".", "..", ".a", "a/b", "a b", "\xc3\xa4"}) {
    EXPECT_FALSE(validate_secret_name(name).ok()) << name;
  }
  EXPECT_FALSE(validate_secret_name(std::string(65, 'a')).ok());
}

}  // namespace
}  // namespace lambent
