// scaler_scenario_runner FILE...: plays scenarios of INFless's scaler; says which line of which did
// not come true. See ../README.md for the language.
#include <memory>

#include "tests/scenarios/scaler/given.h"
#include "tests/scenarios/scaler/stage.h"
#include "tests/scenarios/story.h"

int main(int count, char** arguments) {
  using lambent::scaler_scenario::Given;
  using lambent::scaler_scenario::Stage;
  return lambent::scenario::play_files(count, arguments, [] {
    return std::make_unique<lambent::scenario::StagedStory<Given, Stage>>();
  });
}
