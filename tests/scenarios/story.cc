#include "tests/scenarios/story.h"

#include <cstdio>
#include <fstream>
#include <string>

namespace lambent::scenario {
namespace {

// Returns the number of expectations that came true.
int play_lines(std::ifstream& file, int& line_number, Story& story) {
  bool begun = false;
  int expectations = 0;
  std::string line;
  while (std::getline(file, line)) {
    ++line_number;
    Words words(line);
    if (words.done()) continue;
    if (!begun) {
      if (story.read_given(words)) continue;
      story.begin();
      begun = true;
    }
    if (words.take("at")) {
      story.play(words);
    } else if (words.take("expect")) {
      story.expect(words);
      ++expectations;
    } else {
      throw Failure("a line begins with 'at' or 'expect' once the story has begun");
    }
  }
  if (expectations == 0) throw Failure("the story expects nothing");
  story.end();
  return expectations;
}

int play_file(const char* path, Story& story) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", path);
    return 1;
  }
  int line_number = 0;
  try {
    const int expectations = play_lines(file, line_number, story);
    std::printf("%s: %d expectations came true\n", path, expectations);
    return 0;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s:%d: %s\n", path, line_number, failure.what());
    return 1;
  }
}

}  // namespace

int play_files(int count, char** arguments, const std::function<std::unique_ptr<Story>()>& make) {
  int failed = count < 2 ? 1 : 0;
  for (int i = 1; i < count; ++i) failed |= play_file(arguments[i], *make());
  return failed;
}

}  // namespace lambent::scenario
