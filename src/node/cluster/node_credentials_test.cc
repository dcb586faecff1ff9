#include "node/cluster/node_credentials.h"

#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

const std::string kKey(40, 'k');

NodeCredentials node(const std::string& name, const std::string& key = kKey) {
  return *NodeCredentials::make(name, key);
}

http::Request signed_by(const NodeCredentials& credentials) {
  http::Request request;
  credentials.sign(
      request,
      {.node = {}, .tenant = "team", .scopes = {Scope::kInvoke, Scope::kRead}, .token = "LAMB1"});
  return request;
}

TEST(NodeCredentialsTest, AnotherNodeOfTheKeyLearnsWhoseRequestItIs) {
  const auto whose = node("b").verify(signed_by(node("a")));
  ASSERT_TRUE(whose.ok());
  ASSERT_TRUE(whose->has_value());
  EXPECT_EQ((*whose)->node, "a");
  EXPECT_EQ((*whose)->tenant, "team");
  EXPECT_EQ((*whose)->scopes, (Scopes{Scope::kInvoke, Scope::kRead}));
  EXPECT_EQ((*whose)->token, "LAMB1");
}

TEST(NodeCredentialsTest, AClientsRequestIsNoNodes) {
  const auto whose = node("b").verify({});
  ASSERT_TRUE(whose.ok());
  EXPECT_FALSE(whose->has_value());
}

TEST(NodeCredentialsTest, AnotherKeyProvesNothing) {
  const auto whose = node("b").verify(signed_by(node("a", std::string(40, 'x'))));
  ASSERT_FALSE(whose.ok());
  EXPECT_EQ(whose.error().code, ErrorCode::kUnauthenticated);
}

TEST(NodeCredentialsTest, NothingOfItCanBeChanged) {
  const http::Request good = signed_by(node("a"));
  const std::string header(good.headers.get("X-Lambent-Node"));
  for (size_t at = 0; at < header.size(); ++at) {
    http::Request changed;
    std::string text = header;
    text[at] = text[at] == 'z' ? 'y' : 'z';
    changed.headers.add("X-Lambent-Node", text);
    EXPECT_FALSE(node("b").verify(changed).ok()) << text;
  }
}

TEST(NodeCredentialsTest, WhatAClientSentUnderTheNameIsReplaced) {
  http::Request request;
  request.headers.add("x-lambent-node", "forged");
  request.headers.add("X-Other", "stays");
  node("a").sign(request, {.node = {}, .tenant = "default", .scopes = {}, .token = {}});
  EXPECT_EQ(request.headers.fields().size(), 2U);
  const auto whose = node("b").verify(request);
  ASSERT_TRUE(whose.ok());
  EXPECT_TRUE((*whose)->scopes.empty());
  EXPECT_EQ((*whose)->token, "");
  NodeCredentials::strip(request);
  EXPECT_EQ(request.headers.fields().size(), 1U);
}

TEST(NodeCredentialsTest, AShortKeyIsRefusedAndALineEndIsNoPartOfIt) {
  EXPECT_FALSE(NodeCredentials::make("a", std::string(31, 'k')).ok());
  EXPECT_FALSE(NodeCredentials::make("a", std::string(31, 'k') + "\n").ok());
  EXPECT_TRUE(node("b").verify(signed_by(node("a", kKey + "\n"))).ok());
}

TEST(NodeCredentials, DeriveTheSameKeysOnAllNodesAndAnotherForEachPurpose) {
  const auto a = *NodeCredentials::make("a", std::string(32, 'k'));
  const auto b = *NodeCredentials::make("b", std::string(32, 'k') + "\n");
  const auto stranger = *NodeCredentials::make("a", std::string(32, 'x'));
  EXPECT_EQ(a.derived_key("secrets").size(), 32U);
  EXPECT_EQ(a.derived_key("secrets"), b.derived_key("secrets"));
  EXPECT_NE(a.derived_key("secrets"), a.derived_key("signing"));
  EXPECT_NE(a.derived_key("secrets"), stranger.derived_key("secrets"));
}

}  // namespace
}  // namespace lambent::cluster
