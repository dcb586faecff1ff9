// asynchronous_scenario_runner FILE...: plays lives of asynchronous invocations; says which line of
// which did not come true. See ../README.md for the language.
#include <memory>

#include "tests/scenarios/asynchronous/given.h"
#include "tests/scenarios/asynchronous/stage.h"
#include "tests/scenarios/story.h"

int main(int count, char** arguments) {
  using lambent::asynchronous_scenario::Given;
  using lambent::asynchronous_scenario::Stage;
  return lambent::scenario::play_files(count, arguments, [] {
    return std::make_unique<lambent::scenario::StagedStory<Given, Stage>>();
  });
}
