#include "bin/what_if_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace lambent::bin {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr FunctionId kSteady{0}, kWrong{1};

dispatch::CompleteInvocation ended(int queue_ms, int init_ms, int run_ms) {
  dispatch::CompleteInvocation outcome{};
  outcome.outcome = Outcome::kSucceeded;
  outcome.start = init_ms > 0 ? StartClass::kCold : StartClass::kWarm;
  outcome.phases.queue = milliseconds(queue_ms);
  outcome.phases.init = milliseconds(init_ms);
  outcome.phases.run = milliseconds(run_ms);
  return outcome;
}

// The model is right about one function, and not about the queue and the start of the other.
WhatIfReport report() {
  WhatIfReport report;
  report.names = {{kSteady, "steady"}, {kWrong, "wrong"}};
  report.runs = {
      {.label = "recorded"}, {.label = "simulated as recorded"}, {.label = "simulated D=3"}};
  for (WhatIfRun& run : report.runs) {
    for (int i = 0; i < 3; ++i) run.add(kSteady, ended(0, 0, 100));
  }
  for (int i = 0; i < 2; ++i) report.runs[0].add(kWrong, ended(900, 0, 50));
  for (int i = 0; i < 2; ++i) report.runs[1].add(kWrong, ended(100, 300, 51));
  for (int i = 0; i < 2; ++i) report.runs[2].add(kWrong, ended(10, 300, 51));
  return report;
}

TEST(WhatIfReport, TheFunctionsThatTheModelGetsWrongAreNamedWithWhatDiffers) {
  const auto errors = model_errors(report());
  ASSERT_EQ(errors.size(), 1u) << "of the other nothing differs";
  EXPECT_EQ(errors[0].function, kWrong);
  EXPECT_NEAR(errors[0].seconds, 2 * (0.451 - 0.950), 1e-9);
  EXPECT_DOUBLE_EQ(errors[0].share, 1);
  ASSERT_EQ(errors[0].parts.size(), 2u) << "a millisecond of the run is not worth a word";
  EXPECT_EQ(errors[0].parts[0].name, "queue");
  EXPECT_EQ(errors[0].parts[1].name, "cold start");
  EXPECT_NEAR(errors[0].parts[0].recorded_s, 0.9, 1e-9);
  EXPECT_NEAR(errors[0].parts[0].simulated_s, 0.1, 1e-9);
}

TEST(WhatIfReport, TheTextHasARowForEachRunAndFunctionAndSaysWhyTheModelIsOff) {
  std::ostringstream out, err;
  cli::Console console{out, err};
  print(report(), console);
  EXPECT_THAT(out.str(), HasSubstr("FUNCTION"));
  // The one with the most time first.
  EXPECT_LT(out.str().find("wrong "), out.str().find("steady "));
  EXPECT_THAT(out.str(),
              HasSubstr("wrong, 100 % of the difference: queue 0.900 s recorded, 0.100 s "
                        "simulated; cold start 0.000 s recorded, 0.300 s simulated"));
}

TEST(WhatIfReport, OfAModelThatIsRightNothingIsExplained) {
  WhatIfReport right = report();
  right.runs[1] = right.runs[0];
  std::ostringstream out, err;
  cli::Console console{out, err};
  print(right, console);
  EXPECT_THAT(out.str(), HasSubstr("its mean is 0.0 %"));
  EXPECT_THAT(out.str(), Not(HasSubstr("What differs most")));
}

TEST(WhatIfReport, JsonAndCsvHaveTheRowsOfEachFunction) {
  const nlohmann::json json = json_of(report());
  EXPECT_EQ(json["rows"].size(), 3u);
  ASSERT_EQ(json["functions"].size(), 2u);
  EXPECT_EQ(json["functions"][0]["function"], "wrong");
  EXPECT_EQ(json["functions"][0]["rows"][2]["run"], "simulated D=3");
  EXPECT_NEAR(json["functions"][0]["rows"][0]["queue_mean_s"], 0.9, 1e-9);
  EXPECT_EQ(json["model_error"]["functions"][0]["differs"][0]["part"], "queue");
  EXPECT_THAT(csv_of(report()), HasSubstr("recorded,wrong,2,0,0.95,0.95,0.95,0,0.9,0,0,0.05\n"));
}

}  // namespace
}  // namespace lambent::bin
