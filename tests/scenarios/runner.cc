// scenario_runner FILE...: plays scenarios; says which line of which did not come true. See
// README.md in this folder for the language.
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "tests/scenarios/given.h"
#include "tests/scenarios/stage.h"
#include "tests/scenarios/words.h"

namespace lambent::scenario {
namespace {

// Returns the number of expectations that came true.
int play_file(std::ifstream& file, int& line_number) {
  Given given;
  std::unique_ptr<Stage> stage;
  int expectations = 0;
  std::string line;
  while (std::getline(file, line)) {
    ++line_number;
    Words words(line);
    if (words.done()) continue;
    if (stage == nullptr) {
      if (given.read(words)) continue;
      stage = std::make_unique<Stage>(given);
    }
    if (words.take("at")) {
      stage->play(words);
    } else if (words.take("expect")) {
      stage->expect(words);
      ++expectations;
    } else {
      throw Failure("a line begins with 'at' or 'expect' once the story has begun");
    }
  }
  if (stage == nullptr || expectations == 0) throw Failure("the story expects nothing");
  stage->expect_nothing_more();
  return expectations;
}

int run(const char* path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", path);
    return 1;
  }
  int line_number = 0;
  try {
    const int expectations = play_file(file, line_number);
    std::printf("%s: %d expectations came true\n", path, expectations);
    return 0;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s:%d: %s\n", path, line_number, failure.what());
    return 1;
  }
}

}  // namespace
}  // namespace lambent::scenario

int main(int count, char** arguments) {
  int failed = count < 2 ? 1 : 0;
  for (int i = 1; i < count; ++i) failed |= lambent::scenario::run(arguments[i]);
  return failed;
}
