// Steps that need a neighbour, or hands: cables are pulled and plugged in, a machine sleeps.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/firstlight/steps.h"
#include "client/ctl/launch/child_process.h"
#include "proto/status_words.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::ctl {
namespace {

using nlohmann::json;
constexpr std::uint64_t kHandsNs = 90 * kSecondNs;  // To do it, and to come back.
constexpr int kSettleMs = 700;                      // Consequences of an event follow within this.
// The interface's own event may come after those of the rails: Linux reports a returning carrier
// once a second, and rails may be back before.
constexpr int kInterfaceMs = 5000;

// A program that reports something line by line while other things go on, and that is ended when it
// is no longer needed. A line longer than kLineBytesMax is cut.
class FollowedProgram {
 public:
  static constexpr std::size_t kLineBytesMax = 64 * 1024;

  explicit FollowedProgram(const std::vector<std::string>& words);
  ~FollowedProgram();  // Ends it.
  FollowedProgram(const FollowedProgram&) = delete;
  FollowedProgram& operator=(const FollowedProgram&) = delete;

  // Readable when TakeLines has something; -1: ended.
  int descriptor() const { return output_.get(); }
  // The complete lines. Does not wait.
  std::vector<std::string> TakeLines();

 private:
  pid_t child_ = -1;
  FileDescriptor output_;
  std::string unread_;
};

FollowedProgram::FollowedProgram(const std::vector<std::string>& words) {
  FileDescriptor its_output;
  if (!MakePipe(output_, its_output)) return;
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  child_ = ForkGroup();
  if (child_ == 0) Become(words, nothing.get(), its_output.get(), nothing.get());
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
}

FollowedProgram::~FollowedProgram() {
  if (child_ <= 0) return;
  ::kill(-child_, SIGKILL);
  output_.Reset();
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
}

std::vector<std::string> FollowedProgram::TakeLines() {
  char bytes[16384];
  while (output_.valid()) {
    const ssize_t count = ::read(output_.get(), bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    if (count == 0) {
      output_.Reset();
      break;
    }
    unread_.append(bytes, static_cast<std::size_t>(count));
    if (unread_.size() > kLineBytesMax && unread_.find('\n') == std::string::npos) unread_.clear();
  }
  std::vector<std::string> lines;
  for (std::size_t end; (end = unread_.find('\n')) != std::string::npos;) {
    lines.push_back(unread_.substr(0, end));
    unread_.erase(0, end + 1);
  }
  return lines;
}

// Both sources of news about a cable: the system, and the daemon's events.
class Listeners {
 public:
  Listeners(Lit& lit, const std::string& peer)
      : lit_(lit),
        peer_(peer),
        interfaces_({"mlxcommd", "--try-platform", "watch"}),
        events_(EventsCommand(lit)) {}

  // Both have reported something, so they report what happens from now on.
  bool AreReady() {
    while (!(watching_ && following_) && lit_.left_ns() > 1'000'000) {
      if (!Wait(100)) break;
    }
    return watching_ && following_;
  }
  // Notes what has come, waiting at most this long. False: both have ended.
  bool Wait(int timeout_ms) {
    std::array<pollfd, 2> ready = {
        {{interfaces_.descriptor(), POLLIN, 0}, {events_.descriptor(), POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), timeout_ms);
    for (const std::string& line : interfaces_.TakeLines()) TakeInterface(line);
    for (const std::string& line : events_.TakeLines()) TakeEvent(line);
    return interfaces_.descriptor() >= 0 || events_.descriptor() >= 0;
  }
  // The time of the first event of this kind and rail that was noted since `from`.
  std::optional<std::uint64_t> When(int from, const std::string& kind,
                                    const std::string& rail) const {
    const auto& all = lit_.notes.document.events();
    for (int i = from; i < all.size(); ++i) {
      if (all[i].kind() == kind && all[i].rail() == rail)
        return static_cast<std::uint64_t>(all[i].at_us());
    }
    return std::nullopt;
  }
  // The kind of the rail's last event that was noted since `from`.
  std::string LastOf(int from, const std::string& rail) const {
    const auto& all = lit_.notes.document.events();
    for (int i = all.size(); i > from; --i) {
      const v1::FirstLightEvent& one = all[i - 1];
      if (one.rail() == rail && one.kind().starts_with("rail_")) return one.kind();
    }
    return {};
  }

 private:
  static std::vector<std::string> EventsCommand(const Lit& lit) {
    std::vector<std::string> words = {lit.own_path, "events", "--follow", "--json", "-n", "1"};
    if (!lit.socket_path.empty()) words.insert(words.end(), {"--socket", lit.socket_path});
    return words;
  }
  void TakeInterface(const std::string& line) {
    const std::vector<std::string> parts = absl::StrSplit(line, '\t');
    std::uint64_t unix_ns = 0;
    if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &unix_ns)) return;
    if (parts[1] == "ready") {
      watching_ = true;
      return;
    }
    lit_.notes.Happened(lit_.SinceBeginUs(unix_ns), "interface",
                        parts[1] == "up" ? "interface_up" : "interface_down", parts[2], "");
  }
  void TakeEvent(const std::string& line) {
    static const std::set<std::string> kKinds = {"rail_up", "rail_down", "link_waits", "node_up",
                                                 "node_lost"};
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object() || event.contains("error")) return;  // The latter: CommandFailed.
    const auto text = [&event](const char* name) {
      const auto found = event.find(name);
      return found != event.end() && found->is_string() ? found->get<std::string>() : "";
    };
    std::uint64_t unix_ns = 0;
    const bool is_old = !std::exchange(following_, true);  // The one that was there before.
    if (is_old || !absl::SimpleAtoi(text("unix_ns"), &unix_ns) || !kKinds.contains(text("kind"))) {
      return;
    }
    const std::string object = text("object");
    if (object != "link to " + peer_ && object != "node " + peer_) return;
    // A circuit is no rail of the cable.
    const std::string rail = RailNamedIn(text("text"));
    if (rail.empty() && text("kind").starts_with("rail_")) return;
    lit_.notes.Happened(lit_.SinceBeginUs(unix_ns), "daemon", text("kind"), rail, text("text"));
  }

  Lit& lit_;
  const std::string peer_;
  FollowedProgram interfaces_;
  FollowedProgram events_;
  bool watching_ = false;
  bool following_ = false;
};

// Addresses of an interface, by this node's daemon; without the ports of link-local ones.
std::string AddressesOf(const Lit& lit, const std::string& interface) {
  v1::DoctorReply checkups;
  if (!FetchCheckups(lit.socket_path, checkups).ok() || checkups.nodes_size() == 0) return {};
  for (const v1::InterfaceCheckup& one : checkups.nodes(0).interfaces()) {
    if (one.name() == interface) return absl::StrJoin(one.addresses(), ", ");
  }
  return {};
}

// One cable, pulled and plugged in.
class Pull {
 public:
  Pull(Lit& lit, CableFound cable, std::string interface)
      : lit_(lit),
        cable_(std::move(cable)),
        interface_(std::move(interface)),
        listeners_(lit, cable_.peer) {
    for (const v1::FirstLightRail& rail : lit.notes.document.rails()) {
      if (rail.interface() == interface_) rails_.push_back(rail.rail());
    }
  }

  std::string Run() {
    if (!listeners_.AreReady()) return "the daemon's events cannot be followed";
    const std::string addresses = AddressesOf(lit_, interface_);
    const std::string ask = "Pull the cable on " + interface_ + ", which goes to " + cable_.peer +
                            " (if it asks there too, once is enough).";
    pulled_ = lit_.notes.document.events_size();
    std::string why = Do("pull", ask, {"rail_down", "interface_down"});
    if (!why.empty()) return why;
    JudgePull(pulled_);
    const int plugged = lit_.notes.document.events_size();
    why = Do("plug", "Plug it in again.", {"rail_up", "interface_up"});
    if (!why.empty()) {
      lit_.notes.Refute("plug-rails", why);
      return {};
    }
    JudgePlug(plugged, addresses);
    return {};
  }

 private:
  // The events of each rail of the cable, and of the interface, that follow an action.
  struct Told {
    const char* by_rails;
    const char* by_interface;
  };
  // Waits until these are the last events of all rails since the cable was pulled: one may be back
  // before anybody was asked to plug it in. An interface without events is no reason to fail.
  std::string Do(const std::string& name, const std::string& text, const Told& told) {
    const int from = lit_.notes.document.events_size();
    const std::uint64_t at_us = lit_.NowUs();
    const bool is_person = lit_.prompts.is_person();
    if (!is_person) lit_.notes.Happened(at_us, "person", name, interface_, "");
    if (!lit_.prompts.Ask(name, interface_, text, std::min(lit_.left_ns(), kHandsNs))) {
      return "the prompt \"" + name + "\" was not carried out";
    }
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::nanoseconds(std::min(lit_.left_ns(), kHandsNs));
    const auto all_have = [&] {
      return std::all_of(rails_.begin(), rails_.end(), [&](const std::string& rail) {
        return listeners_.LastOf(pulled_, rail) == told.by_rails;
      });
    };
    while (!all_have()) {
      if (!listeners_.Wait(50)) return "the daemon tells no more events";
      if (lit_.prompts.IsSkipped()) return "left out by hand";
      if (std::chrono::steady_clock::now() >= end) {
        return absl::StrCat("not all rails of the cable had a ", told.by_rails, " in time");
      }
    }
    const auto had = std::chrono::steady_clock::now();
    const auto settled = [&] {
      const bool all = listeners_.When(from, told.by_interface, interface_).has_value();
      const std::chrono::milliseconds wait(all ? kSettleMs : kInterfaceMs);
      return std::chrono::steady_clock::now() - had >= wait;
    };
    while (!settled() && listeners_.Wait(50)) {
    }
    // The first event tells when it was done.
    if (is_person) {
      std::uint64_t first = lit_.NowUs();
      for (int i = from; i < lit_.notes.document.events_size(); ++i) {
        const double at_us = lit_.notes.document.events(i).at_us();
        first = std::min(first, static_cast<std::uint64_t>(at_us));
      }
      lit_.notes.Happened(first > 0 ? first - 1 : 0, "person", name, interface_, "as noticed");
    }
    return {};
  }

  std::uint64_t Last(int from, const char* kind) const {
    std::uint64_t last = 0;
    for (const std::string& rail : rails_) {
      last = std::max(last, listeners_.When(from, kind, rail).value_or(0));
    }
    return last;
  }

  void JudgePull(int from) {
    Notes& notes = lit_.notes;
    const auto seen = listeners_.When(from, "interface_down", interface_);
    const std::uint64_t down = Last(from, "rail_down");
    notes.Judge(
        seen && *seen <= down + 1'000'000, "pull-seen",
        !seen ? "the interface watch told nothing of " + interface_
              : absl::StrCat(interface_, " was told ", *seen <= down ? (down - *seen) / 1000 : 0,
                             " ms before the last of its rails was down"));
    if (seen) {
      const std::uint64_t after = down > *seen ? down - *seen : 0;
      notes.Measure("rails down after the interface", static_cast<double>(after) / 1000, "ms");
      notes.Judge(after <= 1'000'000, "pull-rails", absl::StrCat(after / 1000, " ms"));
    }
    v1::StatusReply status;
    const Failure answered = FetchStatus(lit_.socket_path, status);
    const bool lives =
        answered.ok() && status.nodes_size() > 0 && status.nodes(0).pid() == cable_.daemon_pid;
    notes.Judge(lives, "pull-daemon",
                lives           ? "the same process answers"
                : answered.ok() ? "another process answers"
                                : answered.message);
  }

  void JudgePlug(int from, const std::string& addresses) {
    Notes& notes = lit_.notes;
    std::uint64_t begin = listeners_.When(from, "interface_up", interface_).value_or(0);
    if (begin == 0) begin = listeners_.When(from, "plug", interface_).value_or(0);
    const std::uint64_t up = Last(from, "rail_up");
    const std::uint64_t after = up > begin ? up - begin : 0;
    notes.Measure("rails back after the interface", static_cast<double>(after) / 1000, "ms");
    notes.Judge(after <= 5'000'000, "plug-rails", absl::StrCat(after / 1000, " ms"));
    const std::string now = AddressesOf(lit_, interface_);
    notes.Judge(now == addresses, "plug-addresses",
                now == addresses ? now : absl::StrCat("before: ", addresses, "; now: ", now));
  }

  Lit& lit_;
  const CableFound cable_;
  const std::string interface_;
  Listeners listeners_;
  std::vector<std::string> rails_;
  int pulled_ = 0;  // Later events have to do with it.
};

std::uint64_t Clock(clockid_t which) {
  timespec now{};
  ::clock_gettime(which, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kSecondNs +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// One that counts the time asleep, and one that does not.
#if defined(__APPLE__)
constexpr clockid_t kCounts = CLOCK_MONOTONIC_RAW;
constexpr clockid_t kDoesNot = CLOCK_UPTIME_RAW;
#else
constexpr clockid_t kCounts = CLOCK_BOOTTIME;
constexpr clockid_t kDoesNot = CLOCK_MONOTONIC;
#endif

struct Clocks {
  std::uint64_t counting = Clock(kCounts);
  std::uint64_t other = Clock(kDoesNot);
  std::chrono::steady_clock::time_point steady = std::chrono::steady_clock::now();
};

std::string AwaitRails(Lit& lit) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::string why;
  do {
    CableFound cable;
    why = FindCable(lit, cable);
    if (why.empty()) return {};
    ::poll(nullptr, 0, 200);
  } while (std::chrono::steady_clock::now() < end && lit.left_ns() > kSecondNs);
  return why;
}

}  // namespace

google::protobuf::RepeatedPtrField<v1::FirstLightRail> RailsOf(const v1::LinkStatus& link) {
  google::protobuf::RepeatedPtrField<v1::FirstLightRail> rails;
  for (const v1::RailStatus& rail : link.rails()) {
    if (rail.transport() == v1::Transport::route || rail.state() != v1::RailState::up) continue;
    v1::FirstLightRail& one = *rails.Add();
    one.set_rail(absl::StrCat(rail.transport() == v1::Transport::rdma ? "rdma " : "",
                              rail.local_interface(), " - ", rail.remote_interface()));
    one.set_transport(WordOf(rail.transport()));
    one.set_interface(rail.local_interface());
  }
  return rails;
}

std::string FindCable(const Lit& lit, CableFound& found) {
  v1::StatusReply status;
  const Failure answered = FetchStatus(lit.socket_path, status);
  if (!answered.ok()) return "no neighbour: " + answered.message;
  if (status.nodes_size() == 0) return "no neighbour: the daemon names no node";
  for (const v1::LinkStatus& link : status.nodes(0).links()) {
    if (link.state() != v1::LinkState::up || RailsOf(link).empty()) continue;
    found = {status.node(), link.peer(), status.nodes(0).pid(), link};
    return {};
  }
  return "no neighbour: this node has no link over a cable (mlxcommctl doctor says why)";
}

std::string StepNeighbour(Lit& lit) {
  CableFound cable;
  if (std::string why = FindCable(lit, cable); !why.empty()) return why;
  Notes& notes = lit.notes;
  *notes.document.mutable_rails() = RailsOf(cable.link);
  bool discovered = false;
  std::string rdma = "there is none";
  bool rdma_up = false;
  for (const v1::RailStatus& rail : cable.link.rails()) {
    discovered = discovered || rail.origin() == "discovered";
    if (rail.transport() != v1::Transport::rdma) continue;
    rdma_up = rdma_up || rail.state() == v1::RailState::up;
    rdma = rail.state() == v1::RailState::up ? "up on " + rail.local_interface() : rail.detail();
  }
  if (discovered) {
    notes.Confirm("neighbour", "found by its hellos on " + notes.document.rails(0).interface());
  } else {
    notes.LeaveOut("neighbour", "the configuration names its address");
  }
  notes.Judge(rdma_up, "neighbour-rdma", rdma);
  std::uint64_t best = ~std::uint64_t{0};
  std::string why_not = "no answer";
  for (int i = 0; i < 20 && lit.left_ns() > kSecondNs; ++i) {
    v1::PingRequest request;
    request.set_node(cable.peer);
    v1::PingReply reply;
    const Failure asked = FetchPing(lit.socket_path, request, reply);
    if (!asked.ok()) why_not = asked.message;
    if (asked.ok() && !reply.why_not().empty()) why_not = reply.why_not();
    if (asked.ok() && reply.why_not().empty()) best = std::min(best, reply.round_trip_ns());
  }
  const bool came = best != ~std::uint64_t{0};
  if (came) notes.Measure("round trip to the neighbour", static_cast<double>(best) / 1000, "us");
  notes.Judge(came && best <= 10'000'000, "neighbour-answers",
              came ? absl::StrCat(best / 1000, " us, the best of 20") : why_not);
  return {};
}

std::string StepPull(Lit& lit) {
  CableFound cable;
  if (std::string why = FindCable(lit, cable); !why.empty()) return why;
  if (!lit.prompts.anybody()) return "nobody to pull a cable: run it in a terminal, without --yes";
  *lit.notes.document.mutable_rails() = RailsOf(cable.link);
  const std::string interface = lit.notes.document.rails(0).interface();
  return Pull(lit, std::move(cable), interface).Run();
}

std::string StepSleep(Lit& lit) {
  if (!lit.prompts.anybody())
    return "nobody to send it to sleep: run it in a terminal, without --yes";
  const Clocks before;
  const bool had_rails = [&lit] {
    CableFound cable;
    return FindCable(lit, cable).empty();
  }();
  if (!lit.prompts.Ask("sleep", "",
                       "Send this Mac to sleep (Apple menu), and wake it half a minute later.",
                       lit.left_ns())) {
    return "the prompt \"sleep\" was not carried out";
  }
  const auto slept_ns = [&before] {
    const Clocks now;
    const std::uint64_t counted = now.counting - before.counting;
    const std::uint64_t other = now.other - before.other;
    return counted > other ? counted - other : 0;
  };
  while (lit.prompts.is_person() && slept_ns() < 2 * kSecondNs) {
    if (lit.prompts.IsSkipped()) return "left out by hand";
    if (lit.left_ns() < kSecondNs) break;
    ::poll(nullptr, 0, 200);
  }
  const std::uint64_t slept = slept_ns();
  if (slept < 2 * kSecondNs) return "the machine did not sleep";
  const std::uint64_t now_us = lit.SinceBeginUs(UnixNowNs());
  lit.notes.Happened(now_us > slept / 1000 ? now_us - slept / 1000 : 0, "person", "sleep", "", "");
  lit.notes.Happened(now_us, "person", "wake", "", "");
  const Clocks now;
  const double counting = static_cast<double>(now.counting - before.counting) / 1e9;
  const double steady = std::chrono::duration<double>(now.steady - before.steady).count();
  lit.notes.Judge(std::abs(counting - steady) < 1, "sleep-clock",
                  absl::StrCat("asleep for ", slept / kSecondNs, " s of ", counting,
                               " s, of which it counted ", steady));
  if (!had_rails) {
    lit.notes.LeaveOut("sleep-rails", "no neighbour");
    return {};
  }
  const std::string why = AwaitRails(lit);
  lit.notes.Judge(why.empty(), "sleep-rails", why.empty() ? "they are up" : why);
  return {};
}

}  // namespace mlxcomm::ctl
