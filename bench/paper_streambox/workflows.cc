#include "bench/paper_streambox/workflows.h"

#include <cmath>

namespace lambent::paper_streambox {

const std::vector<Workflow>& workflows() {
  constexpr double kImage = 3 * 224 * 224 * 4, kFrame = 3 * 300 * 300 * 4, kText = 128 * 4;
  // A plate is cut out of a car's picture; what goes from the translation to BERT are words.
  static const std::vector<Workflow> kAll = {
      {"image",
       {{Network::kVgg16, kRequest, Fan::kOne, kImage}, {Network::kEnhance, 0, Fan::kOne, kImage}},
       kImage},
      {"traffic",
       {{Network::kSsd300, kRequest, Fan::kOne, kFrame},
        {Network::kResNet50, 0, Fan::kCars, kImage},
        {Network::kVgg16, 0, Fan::kPeople, kImage},
        {Network::kAlexNet, 1, Fan::kOne, kImage}},
       4000},
      {"social",
       {{Network::kTranslate, kRequest, Fan::kOne, kText},
        {Network::kBertBase, 0, Fan::kOne, kText},
        {Network::kDenseNet121, kRequest, Fan::kOne, kImage},
        {Network::kAlexNet, kRequest, Fan::kOne, kImage}},
       4000},
  };
  return kAll;
}

uint64_t draw(Fan fan, double objects_mean, Random& random) {
  if (fan == Fan::kOne) return 1;
  return random.below(static_cast<uint64_t>(std::lround(objects_mean)) + 1);
}

}  // namespace lambent::paper_streambox
