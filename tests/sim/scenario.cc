#include "tests/sim/scenario.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace mlxcomm::sim {
namespace {

enum class Weather : std::uint8_t {
  kCalm,   // Only the everyday behaviour of cables: delay, reordering, loss.
  kRough,  // Faults that jobs must not notice: short cuts, changing rates, short stops.
  kHarsh,  // Anything.
};

constexpr std::uint64_t kBegins = 2 * kSecond;
// A cable may be back just after a hello, and two of the next ones may be lost.
constexpr std::uint64_t kFindsNs = 3 * discovery::Discovery::kHelloIntervalNs + 500 * kMillisecond;

void DrawDaemon(Scenario& scenario, Random random) {
  node::NodeOptions& node = scenario.daemon.node;
  link::FabricOptions& fabric = node.fabric;
  fabric.cluster = "sim";
  fabric.heartbeat_interval_ns = random.Between(100, 500) * kMillisecond;
  fabric.heartbeat_timeout_ns = 4 * fabric.heartbeat_interval_ns;
  fabric.grace_period_ns = 5 * kSecond;
  fabric.reset_grace_ns = 200 * kMillisecond;
  fabric.reconnect_delay_min_ns = 20 * kMillisecond;
  fabric.reconnect_delay_max_ns = random.Between(50, 200) * kMillisecond;
  fabric.greeting_timeout_ns = random.Between(300, 600) * kMillisecond;
  scenario.settles_ns =
      2 * fabric.greeting_timeout_ns + 3 * fabric.reconnect_delay_max_ns + 500 * kMillisecond;
  scenario.lost_after_ns = fabric.grace_period_ns - 500 * kMillisecond;
  constexpr std::array<std::uint32_t, 4> kCredits = {4, 8, 16, 16};
  node.credit.each = random.Of(kCredits);
  if (random.Chance(500)) {  // Otherwise as measured.
    node.link_latency_ns = random.BetweenPowers(1000, kMillisecond);
    node.link_bytes_per_second = random.BetweenPowers(10'000'000, 10'000'000'000);
  }
  scenario.daemon.blind_of_thousand = random.Chance(100) ? 500 : 0;
  scenario.asks_every_ns_max =
      random.Chance(500) ? random.BetweenPowers(100 * kMillisecond, 4 * kSecond) : 0;
  scenario.daemon.turn_delay_ns_max = random.BetweenPowers(100, 50 * kMicrosecond);
  scenario.daemon.event_ns = random.Chance(500) ? 0 : random.Below(2000);
  scenario.daemon.work_bytes_per_second = random.BetweenPowers(200'000'000, 20'000'000'000);
  scenario.rails.commands_max = random.BetweenPowers(8, 512);
  scenario.rails.events_max = random.BetweenPowers(8, 512);
  scenario.rails.command_delay_ns_max = random.BetweenPowers(1, 20 * kMicrosecond);
}

CableOptions DrawCable(Random& random) {
  CableOptions options;
  options.latency_ns = random.BetweenPowers(2 * kMicrosecond, 2 * kMillisecond);
  if (random.Chance(400)) options.jitter_ns = random.BetweenPowers(1, 4 * options.latency_ns);
  options.reliable = random.Chance(650);
  if (!options.reliable && random.Chance(700)) {
    options.lost_of_million = static_cast<std::uint32_t>(random.BetweenPowers(10, 20'000));
  }
  options.carrier_reports = random.Chance(500);
  options.places_in_parts = options.reliable && random.Chance(500);
  options.window_bytes = random.BetweenPowers(64 * 1024, 8 << 20);
  return options;
}

void AddCables(Scenario& scenario, std::size_t a, std::size_t b, std::size_t count,
               Random& random) {
  for (std::size_t i = 0; i < count; ++i) {
    CablePlan cable;
    cable.a = a;
    cable.b = b;
    cable.options = DrawCable(random);
    cable.options.bytes_per_second = random.BetweenPowers(10'000'000, 10'000'000'000);
    const std::uint64_t dials = random.Below(3);
    cable.a_dials = dials != 1;
    cable.b_dials = dials != 0;
    scenario.cables.push_back(cable);
  }
}

std::size_t DrawCableCount(Random& random) { return random.Chance(600) ? 1 : random.Between(2, 4); }

void DrawTopology(Scenario& scenario, Random random) {
  const std::uint64_t shape = random.Below(100);
  const auto join = [&](std::size_t a, std::size_t b) {
    AddCables(scenario, a, b, DrawCableCount(random), random);
  };
  const char* name = "";
  if (shape < 30) {
    name = "pair";
    scenario.hosts = 2;
    AddCables(scenario, 0, 1, random.Between(1, 4), random);
  } else if (shape < 55) {
    name = "mesh";
    scenario.hosts = random.Between(3, 8);
    for (std::size_t a = 0; a < scenario.hosts; ++a) {
      for (std::size_t b = a + 1; b < scenario.hosts; ++b) join(a, b);
    }
  } else if (shape < 75) {
    name = "ring";
    scenario.hosts = random.Between(3, 12);
    for (std::size_t a = 0; a < scenario.hosts; ++a) join(a, (a + 1) % scenario.hosts);
  } else if (shape < 84) {
    name = "chain";
    scenario.hosts = random.Between(3, 7);
    for (std::size_t a = 0; a + 1 < scenario.hosts; ++a) join(a, a + 1);
  } else if (shape < 92) {
    name = "star";
    scenario.hosts = random.Between(4, 10);
    for (std::size_t a = 1; a < scenario.hosts; ++a) join(0, a);
  } else if (shape < 97) {
    name = "web";
    scenario.hosts = random.Between(5, 24);
    for (std::size_t a = 1; a < scenario.hosts; ++a) join(random.Below(a), a);
    for (std::size_t i = 0; i < scenario.hosts / 2; ++i) {
      const std::size_t a = random.Below(scenario.hosts);
      join(a, (a + 1 + random.Below(scenario.hosts - 1)) % scenario.hosts);
    }
  } else {
    name = "archipelago";  // Hundreds of hosts: small rings, each with its own jobs.
    scenario.hosts = 4 * random.Between(30, 75);
    for (std::size_t a = 0; a < scenario.hosts; ++a) {
      AddCables(scenario, a, a % 4 == 3 ? a - 3 : a + 1, 1, random);
    }
  }
  scenario.description =
      absl::StrCat(name, " of ", scenario.hosts, " hosts, ", scenario.cables.size(), " cables");
}

void DrawFates(JobPlan& job, Weather weather, Random& random) {
  job.fates.assign(job.hosts.size(), {});
  if (weather != Weather::kHarsh || !random.Chance(400)) return;
  Client::Fate& fate = job.fates[random.Below(job.fates.size())];
  const std::uint64_t step = random.Below(job.program.steps);
  const std::uint64_t soon = random.BetweenPowers(1, 2 * kSecond);
  switch (random.Below(5)) {
    case 0: fate.exits_at = step; break;
    case 1: fate.halts_at = step; break;
    case 2: fate.differs_at = step; break;
    case 3: fate.exits_joining_ns = soon; break;
    default: fate.cancels_joining_ns = soon; break;
  }
  // Another rank, when others are lost.
  if (!random.Chance(300)) return;
  Client::Fate& other = job.fates[random.Below(job.fates.size())];
  (random.Chance(500) ? other.exits_shrinking_ns : other.cancels_shrinking_ns) = soon;
}

void DrawJob(Scenario& scenario, const std::vector<std::size_t>& hosts, Weather weather,
             std::uint64_t cost_max, Random random) {
  JobPlan job;
  const std::uint64_t ranks_per_host = random.Chance(600) ? 1 : random.Between(2, 4);
  for (const std::size_t host : hosts) {
    for (std::uint64_t i = 0; i < ranks_per_host; ++i) job.hosts.push_back(host);
  }
  if (random.Chance(200)) random.Shuffle(job.hosts);
  const std::size_t ranks = job.hosts.size();
  const std::uint64_t own = random.Next();
  job.program.ranks = static_cast<std::uint32_t>(ranks);
  constexpr std::array<std::uint64_t, 6> kSizes = {100,        4'000,     64 * 1024,
                                                   256 * 1024, 1'000'000, 4 << 20};
  job.program.bytes_max =
      std::max<std::uint64_t>(std::min(random.Of(kSizes), cost_max / 4 / ranks), 100);
  // A step costs its bytes, and each frame as much as a few thousand bytes more.
  const std::uint64_t step_cost = (job.program.bytes_max / 6 + 3000 * ranks) * ranks;
  job.program.steps =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(cost_max / step_cost, 4, 150));
  // Occasionally large enough that a ring works in slices. Drawn separately, so that older seeds do
  // not change.
  constexpr std::size_t kRanksOfLongJobs = 4;
  if (ranks <= kRanksOfLongJobs && Random(own).Chance(40)) {
    job.program.bytes_max = 16 << 20;
    job.program.steps = 6;
  }
  job.program.splits = random.Chance(600);
  job.client.calls_max = static_cast<std::uint32_t>(random.Between(1, 6));
  job.client.think_ns_max = random.BetweenPowers(1, 100 * kMillisecond);
  job.client.timeout_ns = random.Between(30, 60) * kSecond;
  job.client.gives_up = random.Chance(700);
  job.client.shrinks = random.Chance(500);
  job.client.join_timeout_ns = random.Between(20, 60) * kSecond;
  job.client.joins_late_ns_max =
      random.Chance(300) ? random.BetweenPowers(1, 3 * kSecond) : kMillisecond;
  job.waits_for_links = random.Chance(600);
  job.starts_ns = kBegins + random.Below(6 * kSecond);
  DrawFates(job, weather, random);
  scenario.jobs.push_back(std::move(job));
}

void DrawJobs(Scenario& scenario, Weather weather, Random random) {
  constexpr std::uint64_t kCostMax = 24'000'000;
  const std::uint64_t count = scenario.hosts > 30 ? scenario.hosts / 4 : random.Between(1, 4);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::vector<std::size_t> hosts;
    if (scenario.hosts > 30) {
      for (std::size_t k = 0; k < 4; ++k) hosts.push_back(4 * i + k);
    } else {
      hosts.resize(scenario.hosts);
      std::iota(hosts.begin(), hosts.end(), std::size_t{0});
      random.Shuffle(hosts);
      if (random.Chance(500)) hosts.resize(random.Between(2, hosts.size()));
    }
    DrawJob(scenario, hosts, weather, kCostMax / count, random.Fork("job"));
  }
}

Fault OfACable(Fault::Kind kind, const Scenario& scenario, Random& random) {
  Fault fault;
  fault.kind = kind;
  fault.target = random.Below(scenario.cables.size());
  fault.at_ns = kBegins + random.Below(10 * kSecond);
  return fault;
}

void AddPulls(Scenario& scenario, Weather weather, Random& random) {
  const std::uint64_t count = 1 + random.Below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    Fault fault = OfACable(Fault::Kind::kPull, scenario, random);
    const std::uint64_t longest = weather == Weather::kHarsh ? 20 * kSecond : 2 * kSecond;
    // Flaps: the same cable repeatedly.
    const std::uint64_t times = random.Chance(300) ? random.Between(2, 8) : 1;
    for (std::uint64_t k = 0; k < times; ++k) {
      fault.duration_ns = random.BetweenPowers(kMillisecond, longest / times);
      scenario.faults.push_back(fault);
      fault.at_ns += fault.duration_ns + random.BetweenPowers(kMillisecond, 2 * kSecond);
    }
  }
}

void AddHostFaults(Scenario& scenario, Weather weather, Random& random) {
  const std::uint64_t count = random.Below(3);
  constexpr std::array kHarshKinds = {Fault::Kind::kStop, Fault::Kind::kKill,
                                      Fault::Kind::kPowerOff, Fault::Kind::kReplace};
  for (std::uint64_t i = 0; i < count; ++i) {
    Fault fault;
    fault.kind = weather == Weather::kHarsh ? random.Of(kHarshKinds) : Fault::Kind::kStop;
    fault.target = random.Below(scenario.hosts);
    fault.at_ns = kBegins + random.Below(10 * kSecond);
    const std::uint64_t longest = weather == Weather::kHarsh ? 15 * kSecond : 2 * kSecond;
    fault.duration_ns = random.BetweenPowers(kMillisecond, longest);
    if (fault.kind != Fault::Kind::kStop && random.Chance(300)) fault.duration_ns = kNever;
    scenario.faults.push_back(fault);
  }
}

void AddRateChanges(Scenario& scenario, Random& random) {
  for (std::uint64_t i = random.Below(4); i > 0; --i) {
    Fault fault = OfACable(Fault::Kind::kRate, scenario, random);
    fault.duration_ns = random.BetweenPowers(10 * kMillisecond, 5 * kSecond);
    fault.bytes_per_second = random.BetweenPowers(5'000'000, 10'000'000'000);
    scenario.faults.push_back(fault);
  }
}

void AddFlips(Scenario& scenario, Random random) {
  if (!random.Chance(400)) return;
  for (std::uint64_t i = 1 + random.Below(3); i > 0; --i) {
    Fault fault = OfACable(Fault::Kind::kFlip, scenario, random);
    fault.duration_ns = random.BetweenPowers(10 * kMillisecond, 2 * kSecond);
    fault.flipped_of_million = static_cast<std::uint32_t>(random.BetweenPowers(100, 100'000));
    scenario.faults.push_back(fault);
  }
}

void AddSwallows(Scenario& scenario, Random random) {
  if (!random.Chance(300)) return;
  for (std::uint64_t i = 1 + random.Below(3); i > 0; --i) {
    Fault fault = OfACable(Fault::Kind::kSwallow, scenario, random);
    fault.duration_ns = random.BetweenPowers(kMillisecond, 100 * kMillisecond);
    scenario.faults.push_back(fault);
  }
}

void AddSmallOnly(Scenario& scenario, Weather weather, Random random) {
  if (!random.Chance(300)) return;
  Fault fault = OfACable(Fault::Kind::kSmallOnly, scenario, random);
  fault.duration_ns =
      random.BetweenPowers(10 * kMillisecond, weather == Weather::kHarsh ? 20 * kSecond : kSecond);
  scenario.faults.push_back(fault);
}

}  // namespace

Scenario MakeScenario(std::uint64_t seed) {
  Scenario scenario;
  scenario.seed = seed;
  Random random(seed);
  DrawDaemon(scenario, random.Fork("daemon"));
  DrawTopology(scenario, random.Fork("topology"));
  constexpr std::array kWeathers = {Weather::kCalm, Weather::kRough, Weather::kRough,
                                    Weather::kHarsh, Weather::kHarsh};
  const Weather weather = random.Of(kWeathers);
  DrawJobs(scenario, weather, random.Fork("jobs"));
  Random faults = random.Fork("faults");
  if (weather != Weather::kCalm) {
    AddPulls(scenario, weather, faults);
    AddHostFaults(scenario, weather, faults);
    AddRateChanges(scenario, faults);
    AddFlips(scenario, Random(seed).Fork("flips"));
    AddSmallOnly(scenario, weather, Random(seed).Fork("small only"));
    AddSwallows(scenario, Random(seed).Fork("swallows"));
  }
  std::stable_sort(scenario.faults.begin(), scenario.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at_ns < b.at_ns; });
  if (random.Fork("discovery").Chance(300)) {
    scenario.discovers = true;
    scenario.settles_ns += kFindsNs;
  }
  scenario.end_ns = 600 * kSecond;
  absl::StrAppend(&scenario.description, ", ", scenario.jobs.size(), " jobs, ",
                  scenario.faults.size(), " faults, ", scenario.discovers ? "discovery, " : "",
                  weather == Weather::kCalm    ? "calm"
                  : weather == Weather::kRough ? "rough"
                                               : "harsh");
  return scenario;
}

}  // namespace mlxcomm::sim
