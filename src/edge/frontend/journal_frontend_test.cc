#include "edge/frontend/journal_frontend.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

class FakeJournal final : public JournalService {
 public:
  std::vector<InvocationId> asked;
  std::vector<WhatIfQuery> queries;
  Result<std::string> answer = std::string("{}");

  void why(InvocationId invocation, Done done) override {
    asked.push_back(invocation);
    done(answer);
  }
  void what_if(WhatIfQuery query, Done done) override {
    queries.push_back(std::move(query));
    done(answer);
  }
};

class JournalFrontendTest : public testing::Test {
 protected:
  http::Response send(const std::string& method, const std::string& target,
                      const std::string& body = {}) {
    auto seen = std::make_shared<Exchanged>();
    JournalFrontend(service_).handle(request_of(method, target, body, {}), responder_to(seen));
    return seen->response.value_or(http::Response{.status = 0});
  }
  FakeJournal journal_;
  JournalService* service_ = &journal_;
};

TEST_F(JournalFrontendTest, AsksWhy) {
  const InvocationId id{1, 2};
  EXPECT_EQ(send("GET", "/v1/invocations/" + to_string(id) + "/why").status, 200);
  EXPECT_EQ(journal_.asked, std::vector{id});
  journal_.answer = Error{ErrorCode::kNotFound, "not there"};
  EXPECT_EQ(send("GET", "/v1/invocations/" + to_string(id) + "/why").status, 404);
  EXPECT_EQ(send("GET", "/v1/invocations/x/why").status, 400);
  EXPECT_EQ(send("POST", "/v1/invocations/" + to_string(id) + "/why").status, 405);
}

TEST_F(JournalFrontendTest, AsksWhatWouldHaveBeen) {
  const auto answer =
      send("POST", "/v1/what-if", R"({"last_seconds": 60, "changes": {"D": 3, "policy": "fcfs"}})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  ASSERT_EQ(journal_.queries.size(), 1u);
  EXPECT_EQ(journal_.queries[0].last, seconds(60));
  const std::vector<std::pair<std::string, std::string>> changes = {{"D", "3"}, {"policy", "fcfs"}};
  EXPECT_EQ(journal_.queries[0].changes, changes);
}

TEST_F(JournalFrontendTest, RefusesWhatCouldBeAnOptionOrIsNoSetting) {
  for (const char* body :
       {"", "[]", "{}", R"({"changes": {}})", R"({"changes": {"--journal": "x"}})",
        R"({"changes": {"D": "-1"}})", R"({"changes": {"D": "1 2"}})", R"({"changes": {"D": [1]}})",
        R"({"changes": {"D": "a=b"}})", R"({"changes": {"D": ""}})", R"({"changes": ["D"]})",
        R"({"changes": {"D": 1}, "more": 1})", R"({"changes": {"D": 1}, "last_seconds": 0})",
        R"({"changes": {"D": 1}, "last_seconds": "9"})",
        R"({"changes": {"D": 1}, "last_seconds": 1e9})"}) {
    EXPECT_EQ(send("POST", "/v1/what-if", body).status, 400) << body;
  }
  EXPECT_TRUE(journal_.queries.empty());
  EXPECT_EQ(send("GET", "/v1/what-if").status, 405);
}

TEST_F(JournalFrontendTest, SaysThatThereIsNoJournal) {
  service_ = nullptr;
  const auto answer = send("POST", "/v1/what-if", R"({"changes": {"D": 3}})");
  EXPECT_EQ(answer.status, 412);
  EXPECT_NE(answer.body.find("FAILED_PRECONDITION"), std::string::npos);
}

}  // namespace
}  // namespace lambent::frontend
