// The paper's four applications in three sizes (its Tables 4 and 5) as pipeline functions, and what
// they are made of. Values from constants; used by the bench and its tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/paper_fluidfaas/constants.h"
#include "core/base/result.h"
#include "decide/pipeline/function.h"
#include "decide/pipeline/planner.h"
#include "sim/slice_simulator/model.h"

namespace lambent::paper_fluidfaas {

enum class Size { kSmall, kMedium, kLarge };
inline constexpr Size kSizes[] = {Size::kSmall, Size::kMedium, Size::kLarge};
const char* name_of(Size size);   // "small"
const char* load_of(Size size);   // "light": the load that the paper runs in this size
unsigned pictures_of(Size size);  // of a request

// A100-80GB slices by name: 1g.10gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb.
SliceShape shape_of(const std::string& name);
const std::vector<SliceShape>& shapes();

inline constexpr size_t kApplications = 4;
const char* application_name(size_t application);

pipeline::TransferCosts costs_of(Size size, const Constants& constants);
slice_simulator::MachineModel machine_of(Size size, const Constants& constants);

// Function `application` + 1, with its partitions ranked and its SLO by the paper's definition:
// slo_scale times its time alone on the smallest slice that holds all of it; where none does,
// FAILED_PRECONDITION (the paper leaves App 3 out in its large size).
Result<std::shared_ptr<pipeline::PipelineFunction>> application(size_t application, Size size,
                                                                const Constants& constants,
                                                                pipeline::RankRule rule);
// All that exist in this size.
std::vector<std::shared_ptr<const pipeline::PipelineFunction>> applications(
    Size size, const Constants& constants, pipeline::RankRule rule);

// All components on one slice.
pipeline::StageProcess whole(const pipeline::PipelineFunction& function);

}  // namespace lambent::paper_fluidfaas
