#include "core/domain/access.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

TEST(ScopesTest, TheirTextIsReadBack) {
  for (const Scopes scopes :
       {Scopes{Scope::kAdmin}, Scopes{Scope::kRead, Scope::kInvoke}, Scopes::all()}) {
    EXPECT_EQ(scopes_from(to_string(scopes)).value(), scopes) << to_string(scopes);
  }
  EXPECT_EQ(to_string(Scopes{Scope::kRead, Scope::kDeploy}), "deploy,read");
}

TEST(ScopesTest, AWordThatIsNoScopeIsNamed) {
  for (const char* text : {"", "root", "read,", ",read", "read,,invoke", "Read", "read invoke"}) {
    const auto scopes = scopes_from(text);
    ASSERT_FALSE(scopes.ok()) << text;
    EXPECT_EQ(scopes.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(scopes_from("read,rot").error().message,
            "'rot' is not a scope; they are admin, deploy, invoke, read");
}

TEST(ScopesTest, TheyOverlapIfTheyShareOne) {
  EXPECT_TRUE((Scopes{Scope::kRead, Scope::kInvoke}.overlaps({Scope::kInvoke, Scope::kDeploy})));
  EXPECT_FALSE((Scopes{Scope::kRead}.overlaps({Scope::kInvoke, Scope::kDeploy})));
  EXPECT_FALSE(Scopes().overlaps(Scopes::all()));
}

TEST(CertificateNames, HaveAKindAndHostsAreInLowerCase) {
  EXPECT_EQ(certificate_name_from("email:Alice@team.example").value(), "email:Alice@team.example");
  EXPECT_EQ(certificate_name_from("uri:spiffe://team.example/ci").value(),
            "uri:spiffe://team.example/ci");
  EXPECT_EQ(certificate_name_from("dns:GPU2.example").value(), "dns:gpu2.example");
  for (const std::string& text :
       {std::string(), std::string("alice"), std::string("email:"), std::string("cn:alice"),
        std::string("Email:a@b"), std::string("email:a b"), std::string("dns:\xc3\xa9"),
        std::string("uri:a\0b", 7), "dns:" + std::string(256, 'a')}) {
    const auto name = certificate_name_from(text);
    ASSERT_FALSE(name.ok()) << text;
    EXPECT_EQ(name.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lambent
