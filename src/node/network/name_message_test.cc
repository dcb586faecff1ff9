// Messages about names: what a sandbox may ask, and what comes back.
#include "node/network/name_message.h"
#include "node/network/limits.h"

#include <gmock/gmock.h>

namespace lambent::network {
namespace {

using namespace std::string_literals;

const std::string kAsked =
    "\x03"s
    "Api\x07"
    "example\x03"
    "org\0\0\x01\0\x01"s;
const std::string kMessage = "\x12\x34\x01\0\0\x01\0\0\0\0\0\0"s + kAsked;

TEST(NameMessage, AQuestionIsReadAndWrittenAnew) {
  const auto question = parse_name_question(kMessage + "what a resolver adds");
  ASSERT_TRUE(question.ok());
  EXPECT_EQ(question->name, "api.example.org");
  EXPECT_EQ(question->type, kTypeV4);
  EXPECT_EQ(question->id, 0x1234);
  EXPECT_EQ(write_name_question(*question, 0x5678), "\x56\x78\x01\0\0\x01\0\0\0\0\0\0"s + kAsked);
}

TEST(NameMessage, WhatIsNotOneQuestionIsRefused) {
  for (size_t size = 0; size < kMessage.size(); ++size) {
    EXPECT_FALSE(parse_name_question(kMessage.substr(0, size)).ok()) << size;
  }
  const auto changed = [](size_t at, char to) {
    std::string message = kMessage;
    message[at] = to;
    return parse_name_question(message).ok();
  };
  EXPECT_FALSE(changed(2, '\x81'));   // an answer
  EXPECT_FALSE(changed(5, 2));        // two questions
  EXPECT_FALSE(changed(12, '\xc0'));  // a name elsewhere
  EXPECT_FALSE(changed(13, '.'));
  EXPECT_FALSE(changed(13, ' '));
  EXPECT_FALSE(changed(kMessage.size() - 1, 3));  // another class
}

TEST(NameMessage, AnAnswerHasItsAddresses) {
  const auto question = *parse_name_question(kMessage);
  const std::vector<NamedAddress> addresses = {{IpAddress::v4(0x01020304), seconds(60)},
                                               {IpAddress::v4(0x01020305), seconds(61)}};
  const std::string bytes = write_name_answer(question, NameOutcome::kAnswered, addresses);
  const auto answer = parse_name_answer(bytes);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->id, 0x1234);
  EXPECT_EQ(answer->outcome, NameOutcome::kAnswered);
  EXPECT_EQ(answer->question.name, "api.example.org");
  EXPECT_EQ(answer->addresses, addresses);
  // Cut anywhere behind the question, what is whole counts.
  EXPECT_EQ(parse_name_answer(bytes.substr(0, bytes.size() - 1))->addresses.size(), 1U);
  EXPECT_EQ(parse_name_answer(write_name_answer(question, NameOutcome::kUnknown, {}))->outcome,
            NameOutcome::kUnknown);
}

TEST(NameMessage, AnswersAreBounded) {
  const auto question = *parse_name_question(kMessage);
  const std::vector<NamedAddress> many(60, {IpAddress::v4(0x01020304), seconds(60)});
  const auto answer = parse_name_answer(write_name_answer(question, NameOutcome::kAnswered, many));
  EXPECT_EQ(answer->addresses.size(), limits::kNetworkNameAnswers);
}

TEST(NameMessage, NameServersAreThoseOfTheFile) {
  EXPECT_THAT(parse_name_servers("# no\nsearch x\nnameserver 1.1.1.1\nnameserver ::1 # one\n"
                                 "nameserver nonsense\n"),
              testing::ElementsAre(*parse_ip_address("1.1.1.1"), *parse_ip_address("::1")));
  EXPECT_THAT(parse_name_servers(""), testing::ElementsAre(*parse_ip_address("127.0.0.1")));
}

}  // namespace
}  // namespace lambent::network
