// The C++ interface: each of its functions reaches its operation, and what a Ticket does when it is
// dropped.
#include "client/lib/mlxcomm.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/unit/client/lib/session_fixture.h"

namespace mlxcomm::mlxcomm_hpp_test {
namespace {

using client::FakeAttach;
using client::FakeDaemon;

static_assert(!std::is_copy_constructible_v<Ticket> && std::is_move_constructible_v<Ticket>);
static_assert(!std::is_copy_constructible_v<Group> && std::is_move_constructible_v<Group>);

class CppTest : public testing::Test {
 protected:
  explicit CppTest(std::uint32_t size = 2) : attach(FakeAttach::Of(client::LibraryFolder())) {
    attach.Reset();
    daemon.Welcome();
    const std::string path = daemon.socket_path();
    mlxcomm_connect_options options;
    mlxcomm_connect_options_init(&options);
    options.socket_path = path.c_str();
    connection.emplace(options);
    daemon.Connected();
    world.emplace(*connection, "job", 0, size);
  }
  FakeAttach& attach;
  FakeDaemon daemon;
  std::optional<Connection> connection;
  std::optional<Group> world;
};

class CppAloneTest : public CppTest {
 protected:
  CppAloneTest() : CppTest(1) {}
};

TEST_F(CppAloneTest, EveryBlockingFormDoesWhatItsNameSays) {
  const Buffer input(*connection, 6 * sizeof(float));
  const Buffer output(*connection, 6 * sizeof(float));
  const void* const in = input.data();
  void* const out = output.data();
  const std::uint64_t counts[] = {6};
  constexpr auto f32 = MLXCOMM_FLOAT32;
  const std::vector<std::function<void()>> calls = {
      [&] { world->AllReduce(in, out, 6, f32); },
      [&] { world->AllReduce(in, out, 6, f32, MLXCOMM_MAX); },
      [&] { world->Reduce(in, out, 6, f32, 0, MLXCOMM_MIN); },
      [&] { world->ReduceScatter(in, out, 6, f32, MLXCOMM_PROD); },
      [&] { world->Broadcast(in, out, 6, f32, 0); },
      [&] { world->AllGather(in, out, 6, f32); },
      [&] { world->AllGatherV(in, out, counts, f32); },
      [&] { world->Gather(in, out, 6, f32, 0); },
      [&] { world->Scatter(in, out, 6, f32, 0); },
      [&] { world->AllToAll(in, out, 6, f32); },
      [&] { world->AllToAllV(in, out, counts, counts, f32); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::iota(input.as<float>(), input.as<float>() + 6, static_cast<float>(i));
    calls[i]();
    EXPECT_EQ(std::vector(output.as<float>(), output.as<float>() + 6),
              std::vector(input.as<float>(), input.as<float>() + 6));
  }
  world->Barrier();
  EXPECT_THROW(world->Send(in, 1, f32, 0), Error);
  EXPECT_THROW(world->Receive(out, 1, f32, 0), Error);
  std::optional<Group> part = world->Split(2, 0, "two");
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->name(), "job/two");
  EXPECT_EQ(part->member(0).pid, static_cast<std::uint64_t>(::getpid()));
  EXPECT_FALSE(world->Split(MLXCOMM_NO_GROUP).has_value());
  EXPECT_THROW(world->Shrink(), Error);
}

TEST_F(CppTest, ATicketIsWaitedForTestedAndCancelled) {
  Ticket waited = world->BarrierAsync();
  Ticket tested = world->BarrierAsync();
  const std::uint64_t first = daemon.Take().ticket;
  const std::uint64_t second = daemon.Take().ticket;
  EXPECT_FALSE(tested.Test());
  daemon.Complete(first);
  daemon.Complete(second);
  waited.Wait();
  waited.Wait();  // Used up: no effect.
  EXPECT_TRUE(tested.Test());
  EXPECT_TRUE(tested.Test());
  EXPECT_FALSE(tested.Cancel());

  attach.cancel = [this](const FakeAttach::CancelCall& call) {
    daemon.Complete(call.ticket, MLXCOMM_CANCELLED, "given up", 0, true);
  };
  Ticket cancelled = world->BarrierAsync();
  EXPECT_TRUE(cancelled.Cancel());
  try {
    world->CheckWorks();
    FAIL() << "the group has failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), MLXCOMM_CANCELLED);
    EXPECT_EQ(error.rank(), 0);
    EXPECT_STREQ(error.what(), "CANCELLED: given up");
  }
}

// Why: the next line may free the buffers of an operation in progress.
TEST_F(CppTest, ATicketThatIsDroppedWaits) {
  std::uint64_t number = 0;
  {
    Ticket dropped = world->BarrierAsync();
    Ticket moved = std::move(dropped);
    number = daemon.Take().ticket;
    daemon.Complete(number, MLXCOMM_RANK_LOST, "rank 1 is gone", 1, true);
  }
  mlxcomm_error error{};
  EXPECT_EQ(mlxcomm_wait(world->get(), number, &error), MLXCOMM_INVALID_ARGUMENT)
      << "it was waited for";
  EXPECT_THROW(world->Barrier(), Error) << "the failure stays";
}

}  // namespace
}  // namespace mlxcomm::mlxcomm_hpp_test
