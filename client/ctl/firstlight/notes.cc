#include "client/ctl/firstlight/notes.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <nlohmann/json.hpp>

#include "client/ctl/firstlight/assumptions.h"
#include "client/ctl/render_status.h"
#include "client/ctl/secrets.h"
#include "proto/types/invariant.h"

namespace mlxcomm::ctl {
namespace {

using nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr const char* kAbout[] = {
    "What mlxcommctl firstlight has seen on one machine, for the people who write mlxcomm.",
    "assumptions: each thing that mlxcomm takes of Macs; confirmed, refuted, or not tried and why.",
    "steps, measurements, interfaces, findings (of doctor), rdma (what each device did), events.",
    "Not in it: keys, names of machines and users, MAC addresses, anything of your programs or "
    "data.",
    "Names are replaced by mac-1, mac-2, ...; addresses by others of the same kind, alike "
    "throughout.",
    "Look before you share it: this is all there is. tests/firstlight/replay reads it."};

// Every text of the document on its way into it.
class Writer {
 public:
  Writer(const Pseudonyms& pseudonyms, const std::vector<std::string>& keys)
      : pseudonyms_(pseudonyms), keys_(keys) {}
  std::string operator()(std::string text) const {
    if (text.size() > Notes::kTextBytesMax) text.resize(Notes::kTextBytesMax);
    return WithoutSecrets(pseudonyms_.Replace(std::move(text)), keys_);
  }

 private:
  const Pseudonyms& pseudonyms_;
  const std::vector<std::string>& keys_;
};

ordered_json Assumed(const Notes& notes, const Writer& text) {
  ordered_json all = ordered_json::array();
  for (const Assumption& one : Assumptions()) {
    const Judgement judgement = notes.Of(one.id);
    all.push_back({{"id", one.id},
                   {"assumed", one.assumed},
                   {"source", one.source},
                   {"step", one.step},
                   {"verdict", VerdictText(judgement.verdict)},
                   {"seen", text(judgement.seen)}});
  }
  return all;
}

ordered_json Devices(const RdmaTrials& rdma, const Writer& text) {
  ordered_json all = ordered_json::array();
  for (const TriedDevice& device : rdma.devices) {
    ordered_json gids = ordered_json::array();
    for (const std::string& gid : device.gids) gids.push_back(text(gid));
    ordered_json trials = ordered_json::array();
    for (const RdmaTrial& trial : device.trials) {
      trials.push_back(
          {{"name", trial.name}, {"verdict", trial.verdict}, {"text", text(trial.text)}});
    }
    all.push_back({{"name", text(device.name)},
                   {"active", device.active},
                   {"state", text(device.state)},
                   {"gids", gids},
                   {"trials", trials}});
  }
  return all;
}

ordered_json Rdma(const RdmaTrials& rdma, const Writer& text) {
  ordered_json limits = ordered_json::array();
  for (const RdmaLimit& limit : rdma.limits) {
    if (limit.name == "library" || limit.name == "configuration") continue;  // Paths.
    limits.push_back(
        {{"name", limit.name}, {"value", text(limit.value)}, {"source", text(limit.source)}});
  }
  const std::string trouble = rdma.devices_trouble + rdma.trials_trouble + rdma.limits_trouble;
  return {{"limits", limits}, {"devices", Devices(rdma, text)}, {"trouble", text(trouble)}};
}

ordered_json Interfaces(const Notes& notes, const Writer& text) {
  ordered_json all = ordered_json::array();
  for (const InterfaceFacts& one : notes.interfaces) {
    all.push_back({{"name", text(one.name)},
                   {"hardware", text(one.hardware)},
                   {"running", one.running},
                   {"thunderbolt", one.thunderbolt},
                   {"mtu", one.mtu},
                   {"bridge", text(one.bridge)},
                   {"has_link_local", one.has_link_local}});
  }
  return all;
}

ordered_json Events(const Notes& notes, const Writer& text) {
  ordered_json all = ordered_json::array();
  std::vector<Happening> sorted = notes.happenings;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.at_us < b.at_us; });
  for (const Happening& one : sorted) {
    all.push_back({{"at_us", one.at_us},
                   {"source", one.source},
                   {"kind", one.kind},
                   {"rail", text(one.rail)},
                   {"text", text(one.text)}});
  }
  return all;
}

// Of a list each entry on a line of its own, so that people can read it.
std::string Written(const ordered_json& document) {
  constexpr auto kReplace = ordered_json::error_handler_t::replace;
  std::string out = "{\n";
  bool first = true;
  for (const auto& [name, value] : document.items()) {
    if (!std::exchange(first, false)) out += ",\n";
    out += "  " + ordered_json(name).dump() + ": ";
    if (!value.is_array() || value.empty()) {
      std::string text = value.dump(2, ' ', false, kReplace);
      for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) {
        text.replace(at, 1, "\n  ");
      }
      out += text;
      continue;
    }
    out += "[\n";
    for (std::size_t i = 0; i < value.size(); ++i) {
      out +=
          "    " + value[i].dump(-1, ' ', false, kReplace) + (i + 1 < value.size() ? ",\n" : "\n");
    }
    out += "  ]";
  }
  return out + "\n}\n";
}

}  // namespace

const char* VerdictText(Verdict verdict) {
  return verdict == Verdict::kConfirmed ? "confirmed"
         : verdict == Verdict::kRefuted ? "refuted"
                                        : "not tried";
}

void Notes::Put(std::string_view id, Verdict verdict, std::string seen) {
  MLXCOMM_INVARIANT(FindAssumption(id) != nullptr);
  Judgement& judgement = judgements_[std::string(id)];
  if (verdict < judgement.verdict) return;
  if (verdict == judgement.verdict && !judgement.seen.empty()) {
    judgement.seen += "; " + seen;
  } else {
    judgement = {verdict, std::move(seen)};
  }
  if (judgement.seen.size() > kTextBytesMax) judgement.seen.resize(kTextBytesMax);
}

void Notes::Confirm(std::string_view id, std::string seen) {
  Put(id, Verdict::kConfirmed, std::move(seen));
}
void Notes::Refute(std::string_view id, std::string seen) {
  Put(id, Verdict::kRefuted, std::move(seen));
}
void Notes::LeaveOut(std::string_view id, std::string why) {
  Put(id, Verdict::kNotTried, std::move(why));
}
void Notes::Judge(bool holds, std::string_view id, std::string seen) {
  Put(id, holds ? Verdict::kConfirmed : Verdict::kRefuted, std::move(seen));
}
void Notes::Measure(std::string name, double value, std::string unit) {
  measurements.push_back({std::move(name), value, std::move(unit)});
}
void Notes::Happened(Happening what) {
  if (happenings.size() == kHappeningsMax) {
    ++happenings_left_out;
  } else {
    happenings.push_back(std::move(what));
  }
}

Judgement Notes::Of(std::string_view id) const {
  const auto found = judgements_.find(id);
  if (found != judgements_.end()) return found->second;
  const Assumption& one = *FindAssumption(id);
  for (const StepNote& step : steps) {
    if (step.name == one.step && !step.why.empty()) return {Verdict::kNotTried, step.why};
  }
  return {Verdict::kNotTried, "step " + std::string(one.step) + " came to nothing about it"};
}

std::size_t Notes::Count(Verdict verdict) const {
  const auto all = Assumptions();
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](const auto& one) { return Of(one.id).verdict == verdict; }));
}

std::string Document(const Notes& notes, const Pseudonyms& pseudonyms,
                     const std::vector<std::string>& keys) {
  const Writer text(pseudonyms, keys);
  ordered_json document;
  document["format"] = "mlxcomm-firstlight";
  document["version"] = kVersion;
  document["about"] = kAbout;
  document["names_replaced"] = pseudonyms.replaces();
  ordered_json system = ordered_json::object();
  for (const auto& [name, value] : notes.system) system[name] = text(value);
  document["system"] = system;
  document["took_ms"] = notes.took_ms;
  document["summary"] = {{"confirmed", notes.Count(Verdict::kConfirmed)},
                         {"refuted", notes.Count(Verdict::kRefuted)},
                         {"not_tried", notes.Count(Verdict::kNotTried)}};
  document["assumptions"] = Assumed(notes, text);
  document["steps"] = ordered_json::array();
  for (const StepNote& step : notes.steps) {
    document["steps"].push_back({{"name", step.name},
                                 {"outcome", step.outcome},
                                 {"why", text(step.why)},
                                 {"began_ms", step.began_ms},
                                 {"took_ms", step.took_ms}});
  }
  document["measurements"] = ordered_json::array();
  for (const Measurement& one : notes.measurements) {
    document["measurements"].push_back(
        {{"name", text(one.name)}, {"value", one.value}, {"unit", one.unit}});
  }
  document["interfaces"] = Interfaces(notes, text);
  document["findings"] = ordered_json::array();
  for (const std::string& finding : notes.findings) document["findings"].push_back(text(finding));
  document["rdma"] = Rdma(notes.rdma, text);
  document["rails"] = ordered_json::array();
  for (const RailNote& rail : notes.rails) {
    document["rails"].push_back({{"rail", text(rail.rail)},
                                 {"transport", rail.transport},
                                 {"interface", text(rail.interface)}});
  }
  document["events"] = Events(notes, text);
  document["events_left_out"] = notes.happenings_left_out;
  return Written(document);
}

std::string Summary(const Notes& notes) {
  std::string text;
  for (const Verdict verdict : {Verdict::kRefuted, Verdict::kConfirmed, Verdict::kNotTried}) {
    for (const Assumption& one : Assumptions()) {
      const Judgement judgement = notes.Of(one.id);
      if (judgement.verdict != verdict) continue;
      std::string head = VerdictText(verdict);
      head.resize(11, ' ');
      text += head + std::string(one.assumed) + "\n           " + Shown(judgement.seen) + "\n";
    }
  }
  return text + std::to_string(notes.Count(Verdict::kConfirmed)) + " confirmed, " +
         std::to_string(notes.Count(Verdict::kRefuted)) + " refuted, " +
         std::to_string(notes.Count(Verdict::kNotTried)) + " not tried\n";
}

std::string RailNamedIn(std::string_view text) {
  constexpr std::string_view kBegin = "rail ";
  const std::size_t end = text.find(" is ");
  if (!text.starts_with(kBegin) || end == std::string_view::npos) return {};
  return std::string(text.substr(kBegin.size(), end - kBegin.size()));
}

}  // namespace mlxcomm::ctl
