#include "tests/sim/scale_run.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/collective/plan.h"
#include "daemon/collective/plans/plans.h"
#include "tests/sim/cable.h"
#include "tests/sim/host.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {
namespace {

constexpr std::uint32_t kLeafHosts = 16;
constexpr std::uint64_t kGroup = 7;
constexpr std::uint64_t kEndsNs = 3600 * kSecond;

NodeId NumberedNode(std::uint32_t number) {
  NodeId id;
  id.bytes[14] = static_cast<std::uint8_t>(number >> 8);
  id.bytes[15] = static_cast<std::uint8_t>(number);
  id.bytes[0] = 1;
  return id;
}

// Buffers that have an address and no memory: reads give zeros, and nothing is written.
class AddressRange {
 public:
  explicit AddressRange(std::uint64_t bytes) : bytes_(std::max<std::uint64_t>(bytes, 4096)) {
    memory_ =
        ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~AddressRange() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, bytes_);
  }
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  std::byte* begin() const {
    return memory_ == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory_);
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_;
  void* memory_;
};

class ScaleRun final : public HostListener {
 public:
  explicit ScaleRun(const ScaleOptions& options)
      : options_(options), inputs_(options.bytes), outputs_(options.bytes) {
    for (std::uint32_t i = 0; i < options_.nodes; ++i) {
      members_.push_back({NumberedNode(i), absl::StrCat("n", i), 1});
    }
    signature_ = {OperationKind::kAllReduce,
                  DataType::kFloat32,
                  ReduceOperator::kSum,
                  options_.bytes / 4,
                  0,
                  options_.ring ? PlanKind::kRing : PlanKind::kAutomatic};
    costs_.latency_ns = HopNs();
    costs_.bytes_per_second = options_.bytes_per_second;
    costs_.links_per_node = options_.ring ? 2 : 1;
    MakeHosts();
    options_.ring ? MakeRing() : MakeTree();
  }

  ScaleResult Run() {
    ScaleResult result;
    for (const auto& host : hosts_) host->PowerOn();
    while (!AllJoined() && schedule_.RunOne(10 * kSecond)) {
    }
    if (!AllJoined()) wrong_ = "not all connections were made";
    for (const auto& host : hosts_) AddGroup(*host);
    for (std::uint32_t i = 0; i < options_.repeats && wrong_.empty(); ++i) {
      result.time_ns = Measure(i + 1);
    }
    result.plan = PlanKindName(plan_);
    result.optimum_ns = OptimumNs();
    result.events = schedule_.events();
    result.wrong = wrong_;
    return result;
  }

 private:
  // HostListener
  void OnCompleted(Host&, const collective::Action& action) override {
    ++completed_;
    last_ns_ = schedule_.now_ns();
    if (!action.failure.ok()) wrong_ = action.failure.message;
  }
  void OnSessionReleased(Host&, collective::SessionId) override {}
  void OnEvent(Host&, const record::LoggedEvent& event) override {
    if (event.kind == "node_up") ++joined_;
    if (event.kind == "node_lost") wrong_ = event.text;
  }
  void OnViolation(Host&, const NodeId&, const std::string& what) override { wrong_ = what; }
  void OnHello(const Port&, const wire::DiscoveryHello&) override {}
  void Complain(const std::string& what) override { wrong_ = what; }
  void Log(const std::string&) override {}

  // Between two nodes next to each other: one cable, or two with a switch in between.
  std::uint64_t HopNs() const {
    return options_.ring ? options_.latency_ns : 2 * options_.latency_ns;
  }
  std::uint32_t leaves() const { return (options_.nodes + kLeafHosts - 1) / kLeafHosts; }
  bool AllJoined() const { return joined_ == 2 * cables_.size(); }

  void MakeHosts() {
    for (std::uint32_t i = 0; i < options_.nodes; ++i) {
      DaemonOptions daemon;
      daemon.node.fabric.self.id = members_[i].node;
      daemon.node.fabric.self.name = members_[i].node_name;
      daemon.node.fabric.nodes_max = std::max<std::uint32_t>(64, options_.nodes);
      daemon.node.fabric.heartbeat_interval_ns = kSecond;
      daemon.node.fabric.heartbeat_timeout_ns = 60 * kSecond;
      // The connections are chosen here; routes through other nodes would only add events.
      daemon.node.fabric.routes = false;
      daemon.turn_delay_ns_max = 0;
      daemon.event_ns = options_.event_ns;
      daemon.work_bytes_per_second = 20'000'000'000;
      daemon.carries_payload = false;
      RailOptions rails;
      rails.combines = false;
      hosts_.push_back(std::make_unique<Host>(i, schedule_, std::move(daemon), rails, *this,
                                              random_.Fork("host")));
    }
  }

  Segment* NewSegment(std::uint64_t bytes_per_second) {
    segments_.push_back(std::make_unique<Segment>(Segment{bytes_per_second, 0}));
    return segments_.back().get();
  }

  Cable& Join(std::uint32_t a, std::uint32_t b, std::uint64_t latency_ns) {
    CableOptions options;
    options.name = absl::StrCat(a, "-", b);
    options.latency_ns = latency_ns;
    options.window_bytes = 16 << 20;
    cables_.push_back(std::make_unique<Cable>(options, random_.Fork("cable")));
    Port port;
    port.cable = cables_.back().get();
    port.peer = hosts_[b].get();
    port.dials = true;
    port.interface = absl::StrCat("to", b);
    port.peer_interface = absl::StrCat("to", a);
    hosts_[a]->AddPort(port);
    std::swap(port.interface, port.peer_interface);
    port.side = 1;
    port.peer = hosts_[a].get();
    port.dials = false;
    hosts_[b]->AddPort(port);
    return *cables_.back();
  }

  void MakeRing() {
    const std::uint32_t count = options_.nodes == 2 ? 1 : options_.nodes;
    for (std::uint32_t i = 0; i < count; ++i) {
      Cable& cable = Join(i, (i + 1) % options_.nodes, options_.latency_ns);
      cable.AddSegment(0, NewSegment(options_.bytes_per_second));
      cable.AddSegment(1, NewSegment(options_.bytes_per_second));
    }
    plan_ = PlanKind::kRing;
  }

  // Of a host's port, or of a leaf's uplink: out and in.
  struct Duplex {
    Segment* out = nullptr;
    Segment* in = nullptr;
  };
  Duplex NewDuplex(std::uint64_t rate) { return {NewSegment(rate), NewSegment(rate)}; }

  void MakeTree() {
    std::vector<Duplex> ports;
    std::vector<Duplex> uplinks;
    for (std::uint32_t i = 0; i < options_.nodes; ++i) {
      ports.push_back(NewDuplex(options_.bytes_per_second));
    }
    for (std::uint32_t i = 0; i < leaves(); ++i) {
      uplinks.push_back(NewDuplex(options_.bytes_per_second * options_.uplink_hosts));
    }
    for (const auto& [a, b] : PairsOfThePlan()) {
      const std::uint32_t leaf_a = a / kLeafHosts;
      const std::uint32_t leaf_b = b / kLeafHosts;
      Cable& cable = Join(a, b, (leaf_a == leaf_b ? 2 : 4) * options_.latency_ns);
      for (const bool back : {false, true}) {
        const int side = back ? 1 : 0;
        cable.AddSegment(side, ports[back ? b : a].out);
        if (leaf_a != leaf_b) {
          cable.AddSegment(side, uplinks[back ? leaf_b : leaf_a].out);
          cable.AddSegment(side, uplinks[back ? leaf_a : leaf_b].in);
        }
        cable.AddSegment(side, ports[back ? a : b].in);
      }
    }
  }

  std::set<std::pair<std::uint32_t, std::uint32_t>> PairsOfThePlan() {
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::uint32_t self = 0; self < options_.nodes; ++self) {
      const collective::GroupLayout layout(members_, members_[self].node);
      collective::Plan plan;
      collective::MakePlan({.signature = signature_, .layout = layout, .costs = costs_}, plan);
      plan_ = plan.between_nodes;
      for (const collective::Step& step : plan.steps) {
        if (step.kind == collective::StepKind::kLocal) continue;
        pairs.insert(std::minmax(self, std::uint32_t{step.node}));
      }
    }
    return pairs;
  }

  void AddGroup(Host& host) {
    std::vector<collective::SessionId> sessions(options_.nodes, 0);
    sessions[host.index()] = 1;
    // Not by rendezvous: nodes that are far apart in a ring do not know each other here.
    if (!host.daemon()->node().membership().AddWorld(kGroup, {"", "scale"}, members_, sessions,
                                                     costs_, schedule_.now_ns())) {
      wrong_ = "the group could not be made";
    }
  }

  std::uint64_t Measure(std::uint64_t ticket) {
    const std::uint64_t begin = schedule_.now_ns();
    completed_ = 0;
    for (const auto& host : hosts_) {
      intake::Submission submission;
      submission.entry = {};
      submission.entry.ticket = ticket;
      submission.entry.group = kGroup;
      submission.entry.kind = signature_.kind;
      submission.entry.data_type = signature_.type;
      submission.entry.reduce_operator = signature_.op;
      submission.entry.count = signature_.count;
      submission.entry.plan = signature_.plan;
      submission.entry.timeout_ns = kEndsNs;
      submission.input = inputs_.begin();
      submission.output = options_.in_place ? inputs_.begin() : outputs_.begin();
      submission.input_bytes_available = inputs_.bytes();
      submission.output_bytes_available = outputs_.bytes();
      host->daemon()->Submit(1, submission);
    }
    while (completed_ < options_.nodes && wrong_.empty()) {
      if (!schedule_.RunOne(begin + kEndsNs)) wrong_ = "it does not end";
    }
    return last_ns_ - begin;
  }

  std::uint64_t OptimumNs() const {
    const auto seconds_for = [](double bytes, double rate) { return bytes / rate * 1e9; };
    const auto share = [](double parts) { return 2 * (parts - 1) / parts; };
    const auto bytes = static_cast<double>(options_.bytes);
    const auto rate = static_cast<double>(options_.bytes_per_second);
    const double nodes = options_.nodes;
    const double outlets = options_.ring && options_.nodes > 2 ? 2 : 1;
    double best = seconds_for(share(nodes) * bytes, outlets * rate);
    const std::uint32_t hops = options_.nodes / 2;  // Half way round.
    double farthest = static_cast<double>(options_.latency_ns) * hops;
    if (!options_.ring) {
      const double uplink = rate * static_cast<double>(options_.uplink_hosts);
      best = std::max(best, seconds_for(share(leaves()) * bytes, uplink));
      farthest = static_cast<double>(options_.latency_ns) * (leaves() > 1 ? 4 : 2);
    }
    return static_cast<std::uint64_t>(std::max(best, farthest));
  }

  ScaleOptions options_;
  AddressRange inputs_;
  AddressRange outputs_;
  Random random_{1};
  Schedule schedule_;
  std::vector<collective::Member> members_;
  collective::Signature signature_;
  collective::LinkCosts costs_;
  PlanKind plan_ = PlanKind::kAutomatic;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<std::unique_ptr<Cable>> cables_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::size_t joined_ = 0;
  std::uint32_t completed_ = 0;
  std::uint64_t last_ns_ = 0;
  std::string wrong_;
};

}  // namespace

ScaleResult RunScale(const ScaleOptions& options) { return ScaleRun(options).Run(); }

}  // namespace mlxcomm::sim
