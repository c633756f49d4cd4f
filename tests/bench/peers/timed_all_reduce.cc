#include "tests/bench/peers/timed_all_reduce.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "tests/bench/peers/pause.h"

namespace mlxcomm::bench {
namespace {

constexpr double kSlowSeconds = 0.02;  // From here on a few operations warm up enough.
constexpr double kBatchSeconds = 100e-6;
constexpr std::uint64_t kAloneBytes = 64 * 1024;  // From here on each is timed alone.
#ifdef __APPLE__
constexpr long kMaxRssUnit = 1;
#else
constexpr long kMaxRssUnit = 1024;
#endif
constexpr int kFirst = 3;  // They touch memory for the first time.
constexpr int kWarmUps = 20;
constexpr int kSamplesMin = 3;
constexpr int kSamplesMax = 2000;
constexpr int kSamplesAloneMax = 200;  // Filling and checking takes time as well.

struct Sizes {
  std::uint64_t bytes = 0;
  std::vector<double> samples_us;      // Sorted: the mean of each batch.
  std::vector<double> pauses_seconds;  // Before each sample, sorted.
  std::uint64_t operations = 0;
};

struct Cost {
  double cpu_seconds = 0;  // Of this process, while it reduced.
  double reduced_bytes = 0;
};

rusage Usage() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

double CpuSeconds() {
  const rusage usage = Usage();
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The buffers' contents, repeated: small integers, so that every sum is exact. Short enough to stay
// in the first cache, so that filling and checking disturb nothing else.
constexpr std::uint64_t kPeriod = 3 * 512;
using Values = std::array<float, kPeriod>;

Values Multiples(float factor) {
  Values values;
  for (std::uint64_t i = 0; i < kPeriod; ++i) values[i] = factor * static_cast<float>(1 + i % 3);
  return values;
}

// Other values each turn, so that remains of the previous one do not pass for a result.
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

// Times one size.
class Timing {
 public:
  Timing(AllReduceSystem& system, Pause& pause, Cost& cost, Sizes& found)
      : system_(system),
        pause_(pause),
        cost_(cost),
        found_(found),
        count_(std::max<std::uint64_t>(1, found.bytes / sizeof(float))) {}

  void Measure(double budget) {
    system_.Prepare(count_);
    Fill(system_, count_, 0);
    SecondsOf(kFirst);
    double one = Agreed(system_, SecondsOf(1));
    if (one < kSlowSeconds) {
      SecondsOf(kWarmUps);
      one = Agreed(system_, SecondsOf(kWarmUps) / kWarmUps);
    }
    const bool alone = found_.bytes >= kAloneBytes || pause_.is_one();
    const auto batch = alone
                           ? std::uint64_t{1}
                           : static_cast<std::uint64_t>(std::clamp(kBatchSeconds / one, 1.0, 1e4));
    const int samples = static_cast<int>(std::clamp(
        budget / (one * static_cast<double>(batch) + pause_.seconds()), double{kSamplesMin},
        static_cast<double>(alone ? kSamplesAloneMax : kSamplesMax)));
    std::vector<Sample> taken;
    double telling = one;
    for (int i = 0; i < samples; ++i) {
      const auto turn = static_cast<std::uint64_t>(i) + 1;
      // Before the input is written again: a result of the same input would pass for this one's.
      const double asked = Now();
      const double tick =
          pause_.is_one() ? Agreed(system_, pause_.NextTick(asked, 2 * telling)) : 0;
      const double told = Now();
      telling = std::max(one, told - asked);
      Fill(system_, count_, turn);
      pause_.is_one() ? ComputeUntil(tick) : system_.Meet();
      const double paused = pause_.is_one() ? Now() - told : 0;
      taken.push_back({1e6 * SecondsOf(batch) / static_cast<double>(batch), paused});
      CheckResult(system_, count_, turn);
    }
    Keep(std::move(taken));
  }

 private:
  struct Sample {
    double us;
    double pause_seconds;  // Before it.
  };

  void ComputeUntil(double tick) {
    const std::optional<double> moment = Pause::MomentOf(static_cast<std::uint32_t>(tick), Now());
    if (moment) pause_.ComputeUntil(*moment);
  }

  // Keeps those after a whole pause, if there are any: on a busy machine agreeing on one may take
  // long.
  void Keep(std::vector<Sample> taken) {
    const auto is_whole = [this](const Sample& sample) {
      return sample.pause_seconds >= pause_.seconds();
    };
    if (std::any_of(taken.begin(), taken.end(), is_whole))
      std::erase_if(taken, std::not_fn(is_whole));
    for (const Sample& sample : taken) {
      found_.samples_us.push_back(sample.us);
      found_.pauses_seconds.push_back(sample.pause_seconds);
    }
    std::sort(found_.samples_us.begin(), found_.samples_us.end());
    std::sort(found_.pauses_seconds.begin(), found_.pauses_seconds.end());
  }

  double SecondsOf(std::uint64_t times) {
    const double cpu_before = CpuSeconds();
    const double begin = Now();
    for (std::uint64_t i = 0; i < times; ++i) system_.Run();
    const double seconds = Now() - begin;
    cost_.cpu_seconds += CpuSeconds() - cpu_before;
    cost_.reduced_bytes += static_cast<double>(times * count_ * sizeof(float));
    found_.operations += times;
    return seconds;
  }

  AllReduceSystem& system_;
  Pause& pause_;
  Cost& cost_;
  Sizes& found_;
  std::uint64_t count_;
};

double Quantile(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1) + 0.5)];
}

struct Start {
  double asked_seconds = 0;
  double joined_seconds = 0;
};

void Write(const std::string& folder, const AllReduceSystem& system, const Start& start,
           const Cost& cost, const std::vector<Sizes>& sizes) {
  const std::string path = folder + "/rank-" + std::to_string(system.rank()) + ".json";
  std::ofstream file(path + ".part");
  file.precision(15);
  file << "{\"rank\": " << system.rank() << ", \"ranks\": " << system.size()
       << ", \"pid\": " << getpid() << ", \"asked_seconds\": " << start.asked_seconds
       << ", \"attached_seconds\": " << system.attached_seconds()
       << ", \"joined_seconds\": " << start.joined_seconds
       << ", \"cpu_seconds\": " << cost.cpu_seconds << ", \"reduced_bytes\": " << cost.reduced_bytes
       << ", \"resident_bytes_max\": " << kMaxRssUnit * Usage().ru_maxrss << ", \"sizes\": [";
  for (const Sizes& found : sizes) {
    file << (&found == sizes.data() ? "" : ", ") << "{\"bytes\": " << found.bytes
         << ", \"median_us\": " << Quantile(found.samples_us, 0.5)
         << ", \"min_us\": " << found.samples_us.front()
         << ", \"p10_us\": " << Quantile(found.samples_us, 0.1)
         << ", \"p90_us\": " << Quantile(found.samples_us, 0.9)
         << ", \"pause_seconds\": " << Quantile(found.pauses_seconds, 0.5)
         << ", \"operations\": " << found.operations << "}";
  }
  file << "]}\n";
  file.close();
  if (!file || std::rename((path + ".part").c_str(), path.c_str()) != 0) {
    throw std::runtime_error("cannot write " + path);
  }
}

struct Request {
  std::string folder;
  double budget = 0;
  std::vector<Sizes> sizes;
  double pause_seconds = 0;
  bool hold = false;
};

Request RequestOf(int argc, char** argv) {
  constexpr std::string_view kPause = "pause=";
  Request request{argv[1], std::stod(argv[2]), {}, 0, false};
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "hold") {
      request.hold = true;
    } else if (word.starts_with(kPause)) {
      request.pause_seconds = std::stod(word.substr(kPause.size()));
    } else {
      request.sizes.push_back({std::stoull(word), {}, {}, 0});
    }
  }
  return request;
}

int Run(Request request, const MakeSystem& make) {
  Start start;
  start.asked_seconds = Now();
  const std::unique_ptr<AllReduceSystem> system = make();
  start.joined_seconds = Now();
  Cost cost;
  Pause pause(request.pause_seconds);
  for (Sizes& found : request.sizes) Timing(*system, pause, cost, found).Measure(request.budget);
  Write(request.folder, *system, start, cost, request.sizes);
  char nothing = 0;
  while (request.hold && read(STDIN_FILENO, &nothing, 1) > 0) {
  }
  return 0;
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
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s FOLDER SECONDS [BYTES...] [pause=SECONDS] [hold]\n", argv[0]);
    return 2;
  }
  try {
    return Run(RequestOf(argc, argv), make);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    std::_Exit(1);  // Without destructors that wait for the other ranks.
  }
}

}  // namespace mlxcomm::bench
