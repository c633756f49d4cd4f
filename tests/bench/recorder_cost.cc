// The cost of the flight recorder: recording an 8-byte all_reduce, by the daemon's own recorders,
// and the same all_reduce through running daemons, in turns.
//
//   recorder_cost SOCKET_OF_RANK_0 SOCKET_OF_RANK_1 ROUNDS OPERATIONS
//
// Prints the medians of the rounds as JSON. Both ranks are threads of this process.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "client/lib/mlxcomm.hpp"
#include "daemon/platform/machine.h"
#include "daemon/record/operation_recorder.h"
#include "daemon/record/rail_recorder.h"

namespace {

using mlxcomm::collective::Operation;

constexpr std::uint64_t kElements = 2;  // Of float32: 8 bytes.

class NoHost final : public mlxcomm::collective::ExecutionHost {
 public:
  mlxcomm::collective::ActionQueue& actions() override { return actions_; }
  bool TakeCredit(std::uint16_t, std::uint32_t, std::uint32_t) override { return false; }
  bool Solicit(std::uint16_t) override { return false; }
  void Unsolicit() override {}
  void FreeStash(std::int32_t) override {}
  const std::byte* StashData(std::int32_t) const override { return nullptr; }
  mlxcomm::collective::LocalWork& NewWork(std::uint32_t, std::uint32_t, std::uint32_t,
                                          std::uint64_t&) override {
    return work_;
  }

 private:
  mlxcomm::collective::ActionQueue actions_;
  mlxcomm::collective::LocalWork work_;
};

// Everything that one daemon records for one operation.
class Recording {
 public:
  explicit Recording(bool two_nodes) : two_nodes_(two_nodes) {
    operation_.key.group = 1;
    operation_.calls.resize(two_nodes ? 1 : 2);
    for (std::uint32_t rank = 0; rank < operation_.calls.size(); ++rank) {
      mlxcomm::collective::Call& call = operation_.calls[rank].call;
      call.rank = rank;
      call.signature = {mlxcomm::OperationKind::kAllReduce,
                        mlxcomm::DataType::kFloat32,
                        mlxcomm::ReduceOperator::kSum,
                        kElements,
                        0,
                        {},
                        0};
    }
  }
  void One() {
    ++operation_.key.number;
    for (const Operation::LocalCall& call : operation_.calls) recorder_.OnCalled(operation_, call);
    recorder_.OnMatched(operation_);
    if (two_nodes_) MoveBetweenNodes();
    recorder_.OnEnded(operation_, mlxcomm::FailureCode::kNone);
  }

 private:
  // A grant and a frame in each direction, and the rail's thread's own part.
  void MoveBetweenNodes() {
    mlxcomm::wire::FrameHeader header;
    header.type = mlxcomm::wire::FrameType::kEager;
    header.group = operation_.key.group;
    header.number = operation_.key.number;
    const std::uint64_t begin_ns = mlxcomm::platform::MonotonicNow();
    rail_->OnSent(header, begin_ns, mlxcomm::platform::MonotonicNow());
    rail_->OnReceived(header, begin_ns, begin_ns);
    for (int i = 0; i < 2; ++i) {
      recorder_.OnHeard(operation_, 1, 1);
      recorder_.OnMoved(operation_);
    }
  }

  bool two_nodes_;
  NoHost host_;
  Operation operation_{host_};
  std::uint64_t now_ns_ = 1;
  mlxcomm::record::FlightRecorder flight_recorder_{"bench"};
  mlxcomm::record::OperationCounts counts_;
  mlxcomm::OperationRecorder recorder_{flight_recorder_, counts_, now_ns_,
                                       &mlxcomm::platform::MonotonicNow};
  std::unique_ptr<mlxcomm::fabric::RailObserver> rail_ =
      mlxcomm::RecordRail(flight_recorder_, "rail");
};

class Rank {
 public:
  Rank(const char* socket, std::uint32_t rank)
      : connection_(Options(socket)),
        group_(connection_, "recorder_cost", rank, 2),
        input_(connection_, kElements * sizeof(float)),
        output_(connection_, kElements * sizeof(float)) {}
  void Operate(int operations) {
    for (int i = 0; i < operations; ++i) {
      group_.AllReduce(input_.data(), output_.data(), kElements, MLXCOMM_FLOAT32);
    }
  }

 private:
  static mlxcomm_connect_options Options(const char* socket) {
    mlxcomm_connect_options options;
    mlxcomm_connect_options_init(&options);
    options.socket_path = socket;
    return options;
  }
  mlxcomm::Connection connection_;
  mlxcomm::Group group_;
  mlxcomm::Buffer input_;
  mlxcomm::Buffer output_;
};

template <typename Body>
double NanosecondsEach(int times, Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count() / times;
}

double MedianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

int Run(char** argv) {
  const int rounds = std::stoi(argv[3]);
  const int operations = std::stoi(argv[4]);
  const bool two_nodes = std::string(argv[1]) != argv[2];
  // Rank 1 only takes part. Its thread ends with its last operation, or with the program.
  std::thread other([&] {
    try {
      Rank(argv[2], 1).Operate((rounds + 1) * operations);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "recorder_cost: rank 1: %s\n", error.what());
      std::_Exit(1);
    }
  });
  Rank rank(argv[1], 0);
  Recording recording(two_nodes);
  rank.Operate(operations);  // Warm.
  const int records = 100 * operations;
  std::vector<double> operation_ns;
  std::vector<double> recording_ns;
  for (int round = 0; round < rounds; ++round) {
    operation_ns.push_back(NanosecondsEach(operations, [&] { rank.Operate(operations); }));
    recording_ns.push_back(NanosecondsEach(records, [&] {
      for (int i = 0; i < records; ++i) recording.One();
    }));
  }
  other.join();
  std::printf("{\"operation_ns\": %.0f, \"operation_ns_min\": %.0f, \"recording_ns\": %.1f}\n",
              MedianOf(operation_ns), *std::min_element(operation_ns.begin(), operation_ns.end()),
              MedianOf(recording_ns));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: recorder_cost SOCKET_OF_RANK_0 SOCKET_OF_RANK_1 ROUNDS OPERATIONS\n",
               stderr);
    return 2;
  }
  try {
    return Run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "recorder_cost: %s\n", error.what());
    std::_Exit(1);  // The other rank's thread may wait for this one.
  }
}
