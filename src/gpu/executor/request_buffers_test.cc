#include "gpu/executor/request_buffers.h"

#include <gmock/gmock.h>

#include "gpu/executor/testing/parts_testing.h"

namespace lambent::executor {
namespace {

using testing::HasSubstr;

constexpr InvocationId kInvocation{7, 1};

class RequestBuffersTest : public ExecutorParts {
 protected:
  // Inputs, kernels and outputs of a request, done.
  WantedOutputs serve(RequestBuffers& buffers, const RequestedInstance& instance,
                      const kernel_graph::Request& request) {
    const auto gathered = buffers.gather(request, false);
    EXPECT_TRUE(gathered.ok() && *gathered);
    EXPECT_TRUE(buffers.place().ok());
    const auto pieces = buffers.queue_inputs(request);
    EXPECT_TRUE(pieces.ok() && pieces->empty());
    LoadedInstance& loaded = instance.loaded;
    loaded.program->bind(buffers.addresses());
    EXPECT_TRUE(loaded.program->launch(0, loaded.stream().get()).ok());
    auto outputs = buffers.queue_outputs(request, kInvocation, *kept_);
    EXPECT_TRUE(outputs.ok());
    EXPECT_TRUE(loaded.stream().synchronize().ok());
    return std::move(*outputs);
  }
  static std::string with_object(ObjectId object, bool as_object = false) {
    return R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(object) +
           R"("}}], "outputs": [{"name": "y")" +
           (as_object ? R"(, "parameters": {"object": true})" : "") + "}]}";
  }
};

TEST_F(RequestBuffersTest, ShortValuesGoThroughPageLockedMemoryBothWays) {
  const RequestedInstance instance = load(1, affine(2));
  const auto request = raw(instance, {1, 2});
  RequestBuffers buffers(instance, *store_, *contents_, nullptr);
  const WantedOutputs outputs = serve(buffers, instance, request);
  ASSERT_TRUE(outputs.are_inline);
  ASSERT_EQ(outputs.all.size(), 1u);
  const char* out = static_cast<const char*>(instance.loaded.out->pointer());
  EXPECT_EQ(ints_of({out + outputs.all[0].offset, outputs.all[0].size.count}),
            (std::vector<int>{4, 7}));
  EXPECT_GT(buffers.pinned_size(), Bytes(0));
}

TEST_F(RequestBuffersTest, AnObjectIsReadWhereItLiesAndIsPinnedUntilTheRelease) {
  const RequestedInstance instance = load(1, affine(2));
  const ObjectId x = object(0, {DataType::kInt32, {2}});
  const auto request = json(instance, with_object(x));
  RequestBuffers buffers(instance, *store_, *contents_, nullptr);
  serve(buffers, instance, request);
  EXPECT_EQ(buffers.addresses()[0], store_->find(DeviceName::of(x))->address);
  EXPECT_EQ(pins(DeviceName::of(x)), 1u);
  EXPECT_EQ(pins(DeviceName::of(instance.id, 2)), 1u);
  buffers.release();
  EXPECT_EQ(pins(DeviceName::of(x)), 0u);
  EXPECT_EQ(pins(DeviceName::of(instance.id, 2)), 0u);
  EXPECT_EQ(buffers.pinned_size(), Bytes(0));
}

TEST_F(RequestBuffersTest, AnOutputThatBecomesAnObjectStaysAndTheInstanceTakesAnotherPlace) {
  const RequestedInstance instance = load(1, affine(2));
  const ObjectId x = object(0, {DataType::kInt32, {2}});
  const auto request = json(instance, with_object(x, true));
  const ObjectId y{kInvocation, 0};
  {
    RequestBuffers buffers(instance, *store_, *contents_, nullptr);
    const WantedOutputs outputs = serve(buffers, instance, request);
    ASSERT_EQ(outputs.all.size(), 1u);
    EXPECT_EQ(outputs.all[0].object, y);
    const Bytes kept = buffers.keep_objects(outputs.all);
    EXPECT_EQ(kept, store_->find(DeviceName::of(y))->size);
    EXPECT_LT(kept, buffers.pinned_size());
    EXPECT_EQ(store_->find(DeviceName::of(instance.id, 2)), nullptr);
  }
  EXPECT_EQ(pins(DeviceName::of(y)), 0u) << "released with the request";
  EXPECT_EQ(store_->find(DeviceName::of(y))->type, (TensorType{DataType::kInt32, {2}}));
}

TEST_F(RequestBuffersTest, AnObjectThatIsNotHereIsAskedForAndAwaited) {
  const RequestedInstance instance = load(1, affine(2));
  const ObjectId x{{9, 9}, 0};
  const auto request = json(instance, with_object(x));
  RequestBuffers buffers(instance, *store_, *contents_, nullptr);
  const auto gathered = buffers.gather(request, true);
  ASSERT_TRUE(gathered.ok());
  EXPECT_FALSE(*gathered);
  EXPECT_EQ(asked_, std::vector<ObjectId>{x});
}

TEST_F(RequestBuffersTest, AnObjectOfAnotherTypeIsTheInputsError) {
  const RequestedInstance instance = load(1, affine(2));
  const auto request = json(instance, with_object(object(0, {DataType::kInt32, {3}})));
  RequestBuffers buffers(instance, *store_, *contents_, nullptr);
  const auto gathered = buffers.gather(request, true);
  ASSERT_FALSE(gathered.ok());
  EXPECT_EQ(gathered.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(gathered.error().message, HasSubstr("inputs[0].parameters.object ('x')"));
  EXPECT_EQ(buffers.subject(), protocol::ErrorSubject::kInput);
}

// As a request does that waits for memory: what it could place it keeps, pinned once.
TEST_F(RequestBuffersTest, PlacingAgainAfterTooLittleMemoryPinsNothingTwice) {
  const size_t count = 1 << 19;  // 2 MiB a buffer
  const RequestedInstance instance = load(1, affine(count));
  const auto request = raw(instance, std::vector<int>(count, 1));
  RequestBuffers buffers(instance, *store_, *contents_, nullptr);
  ASSERT_TRUE(buffers.gather(request, true).ok());
  store_->set_limit(Bytes::mib(2));
  const auto placed = buffers.place();
  ASSERT_FALSE(placed.ok());
  EXPECT_EQ(placed.error().code, ErrorCode::kResourceExhausted);
  store_->set_limit(Bytes::mib(64));
  ASSERT_TRUE(buffers.place().ok());
  EXPECT_EQ(buffers.pinned_size(), Bytes::mib(6));
  buffers.release();
  store_->set_limit(Bytes(0));
  EXPECT_EQ(store_->used(), Bytes(0)) << "nothing is pinned any more";
}

TEST_F(RequestBuffersTest, LongValuesAreLeftToTheLink) {
  const size_t count = 1 << 19;
  const RequestedInstance instance = load(1, affine(count));
  const auto request = raw(instance, std::vector<int>(count, 1));
  RequestBuffers buffers(instance, *store_, *contents_, nullptr);
  ASSERT_TRUE(buffers.gather(request, true).ok());
  ASSERT_TRUE(buffers.place().ok());
  const auto pieces = buffers.queue_inputs(request);
  ASSERT_TRUE(pieces.ok());
  ASSERT_EQ(pieces->size(), 1u);
  EXPECT_EQ(pieces->at(0).size, Bytes::mib(2));
  EXPECT_EQ(pieces->at(0).device, buffers.addresses()[0]);
  const auto outputs = buffers.queue_outputs(request, kInvocation, *kept_);
  ASSERT_TRUE(outputs.ok());
  EXPECT_FALSE(outputs->are_inline);
  ASSERT_TRUE(instance.loaded.stream().synchronize().ok());
}

TEST_F(RequestBuffersTest, ACopyOnTheDeviceNeedsRoomInTheInstancesShare) {
  // More kernels read x than are changed for each object.
  std::vector<std::string> steps;
  for (int i = 0; i < 10; ++i) steps.push_back(scale("x", "y", 1, i, 2));
  const Files files = function({buffer("x", "input", 2), buffer("y", "output", 2)}, steps);
  const ObjectId x = object(0, {DataType::kInt32, {2}});
  for (const bool has_room : {true, false}) {
    const RequestedInstance instance =
        load(has_room ? 1 : 2, files, has_room ? Bytes::mib(1) : Bytes(1));
    const auto request = json(instance, with_object(x));
    RequestBuffers buffers(instance, *store_, *contents_, nullptr);
    ASSERT_TRUE(buffers.gather(request, true).ok());
    ASSERT_TRUE(buffers.place().ok());
    ASSERT_TRUE(buffers.queue_inputs(request).ok());
    EXPECT_EQ(buffers.addresses()[0] != store_->find(DeviceName::of(x))->address, has_room);
    ASSERT_TRUE(instance.loaded.stream().synchronize().ok());
  }
}

}  // namespace
}  // namespace lambent::executor
