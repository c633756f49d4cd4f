#include "tests/bench/peers/timed_all_reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace mlxcomm::bench {
namespace {

constexpr double kSlowSeconds = 0.02;  // From here on a few operations warm up enough.
constexpr double kBatchSeconds = 100e-6;
constexpr double kBatchMax = 1e4;
constexpr std::uint64_t kAloneBytes = 64 * 1024;  // From here on each is timed alone.
constexpr int kFirst = 3;                         // They touch memory for the first time.
constexpr int kWarmUps = 20;
constexpr double kSamplesMin = 3;
constexpr double kSamplesMax = 2000;
constexpr double kSamplesAloneMax = 200;  // Filling and checking takes time as well.

// The buffers' contents, repeated: small integers, so that every sum is exact. Short enough to stay
// in the first cache, so that filling and checking disturb nothing else.
constexpr std::uint64_t kPeriod = 3 * 512;
using Values = std::array<float, kPeriod>;

Values Multiples(float factor) {
  Values values;
  for (std::uint64_t i = 0; i < kPeriod; ++i) values[i] = factor * static_cast<float>(1 + i % 3);
  return values;
}

// Different values each turn, so that leftovers of the previous one are not taken for a result.
float FactorOf(std::uint64_t turn) { return static_cast<float>(1 + turn % 5); }

void Fill(AllReduceSystem& system, std::uint64_t count, std::uint64_t turn) {
  const Values values = Multiples(FactorOf(turn) * static_cast<float>(system.rank() + 1));
  float* const input = system.input();
  for (std::uint64_t i = 0; i < count; i += kPeriod) {
    std::copy_n(values.data(), std::min(kPeriod, count - i), input + i);
  }
  system.OnFilled();
}

void CheckResult(AllReduceSystem& system, std::uint64_t count, std::uint64_t turn) {
  const std::uint32_t ranks = system.size();
  const Values expected = Multiples(FactorOf(turn) * static_cast<float>(ranks * (ranks + 1) / 2));
  const float* const output = system.output();
  for (std::uint64_t i = 0; i < count; i += kPeriod) {
    const std::uint64_t length = std::min(kPeriod, count - i);
    if (std::memcmp(output + i, expected.data(), length * sizeof(float)) == 0) continue;
    const float* const wrong =
        std::mismatch(output + i, output + i + length, expected.data()).first;
    throw std::runtime_error(
        "rank " + std::to_string(system.rank()) + ", " + std::to_string(count) +
        " floats: element " + std::to_string(wrong - output) + " is " + std::to_string(*wrong) +
        ", expected " +
        std::to_string(expected[static_cast<std::uint64_t>(wrong - output) % kPeriod]));
  }
}

// Rank 0's number, on every rank: a sum to which the others add nothing.
double Agreed(AllReduceSystem& system, double found) {
  const float own = system.input()[0];
  system.input()[0] = system.rank() == 0 ? static_cast<float>(found) : 0.0F;
  system.Run();
  system.input()[0] = own;
  return std::max(1e-8, static_cast<double>(system.output()[0]));
}

double SecondsOf(AllReduceSystem& system, std::uint64_t times) {
  const double begin = Now();
  for (std::uint64_t i = 0; i < times; ++i) system.Run();
  return Now() - begin;
}

// Returns the seconds of a warm operation, the same number on all ranks.
double WarmUp(AllReduceSystem& system) {
  SecondsOf(system, kFirst);
  const double first = Agreed(system, SecondsOf(system, 1));
  if (first >= kSlowSeconds) return first;
  SecondsOf(system, kWarmUps);
  return Agreed(system, SecondsOf(system, kWarmUps) / kWarmUps);
}

// The other work of a training step: the caches hold other data afterwards, and waiters have gone
// to sleep. All ranks end it at the same moment, a multiple of the pause on the machine's clock.
// Ranks that leave a meeting on either side of a multiple end a pause apart; that is rare, and the
// median ignores it.
class Pause {
 public:
  explicit Pause(double seconds)
      : seconds_(seconds), swept_(seconds > 0 ? kSweptBytes / sizeof(float) : 0) {}
  double seconds() const { return seconds_; }
  // Computes for at least the pause; all ranks have just met.
  void Take() {
    if (swept_.empty()) return;
    const double moment = (std::floor(Now() / seconds_) + 2) * seconds_;
    for (std::size_t next = 0; Now() < moment; next = (next + kBetweenLooks) % swept_.size()) {
      for (std::size_t i = 0; i < kBetweenLooks; ++i) {
        swept_[next + i] = swept_[next + i] * 0.5F + 1.0F;
      }
    }
  }

 private:
  static constexpr std::size_t kSweptBytes = 16 << 20;  // More than a core's own caches hold.
  static constexpr std::size_t kBetweenLooks = 512;     // Less than a microsecond's work.
  double seconds_;
  std::vector<float> swept_;
};

double MedianMicroseconds(AllReduceSystem& system, Pause& pause, std::uint64_t bytes,
                          double budget) {
  const std::uint64_t count = std::max<std::uint64_t>(1, bytes / sizeof(float));
  system.Prepare(count);
  Fill(system, count, 0);
  const double one = WarmUp(system);
  const bool alone = bytes >= kAloneBytes || pause.seconds() > 0;
  const double batch = alone ? 1 : std::floor(std::clamp(kBatchSeconds / one, 1.0, kBatchMax));
  const auto samples =
      static_cast<std::uint64_t>(std::clamp(budget / (one * batch + pause.seconds()), kSamplesMin,
                                            alone ? kSamplesAloneMax : kSamplesMax));
  std::vector<double> taken;
  for (std::uint64_t turn = 1; turn <= samples; ++turn) {
    Fill(system, count, turn);
    system.Meet();
    pause.Take();
    taken.push_back(1e6 * SecondsOf(system, static_cast<std::uint64_t>(batch)) / batch);
    CheckResult(system, count, turn);
  }
  const auto middle = taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2);
  std::nth_element(taken.begin(), middle, taken.end());
  return *middle;
}

void Run(const std::string& folder, double budget, double pause_seconds,
         const std::vector<std::string>& sizes, const MakeSystem& make) {
  const double asked_seconds = Now();
  const std::unique_ptr<AllReduceSystem> system = make();
  const double joined_seconds = Now();
  Pause pause(pause_seconds);
  std::ostringstream found;
  found.precision(15);
  found << "{\"rank\": " << system->rank() << ", \"ranks\": " << system->size()
        << ", \"asked_seconds\": " << asked_seconds
        << ", \"attached_seconds\": " << system->attached_seconds()
        << ", \"joined_seconds\": " << joined_seconds << ", \"median_us\": {";
  const char* separator = "";
  for (const std::string& bytes : sizes) {
    found << separator << '"' << bytes
          << "\": " << MedianMicroseconds(*system, pause, std::stoull(bytes), budget);
    separator = ", ";
  }
  found << "}}\n";
  const std::string path = folder + "/rank-" + std::to_string(system->rank()) + ".json";
  std::ofstream file(path);
  file << found.str();
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace

double Now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  return value;
}

std::uint32_t EnvironmentNumber(const char* name) {
  return static_cast<std::uint32_t>(std::stoul(Environment(name)));
}

int TimedMain(int argc, char** argv, const MakeSystem& make) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s FOLDER SECONDS PAUSE_SECONDS [BYTES...]\n", argv[0]);
    return 2;
  }
  try {
    Run(argv[1], std::stod(argv[2]), std::stod(argv[3]), {argv + 4, argv + argc}, make);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    std::_Exit(1);  // Skips destructors that wait for the other ranks.
  }
}

}  // namespace mlxcomm::bench
