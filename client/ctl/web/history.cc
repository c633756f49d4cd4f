#include "client/ctl/web/history.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mlxcomm::ctl {
namespace {

// The page's key of a link: the ids of its nodes.
std::string EndsOfLink(const v1::NodeStatus& node, const v1::LinkStatus& link) {
  return std::min(node.id(), link.peer_id()) + " " + std::max(node.id(), link.peer_id());
}

// Adds rates in both directions. `direct` leaves out routes, which count on the other nodes'
// cables.
void AddRates(const v1::LinkStatus& link, double& all, double& direct) {
  for (const v1::RailStatus& rail : link.rails()) {
    if (rail.state() != v1::RailState::up) continue;
    const double rate = rail.sent_bytes_per_second() + rail.received_bytes_per_second();
    all += rate;
    if (rail.transport() != v1::Transport::route) direct += rate;
  }
}

}  // namespace

bool History::Add(const v1::StatusReply& status, std::uint64_t unix_ns) {
  const std::uint64_t last = samples_.empty() ? 0 : samples_.back().unix_ns();
  if (unix_ns >= last && unix_ns - last < kStepNs) return false;
  const bool was_set_back = unix_ns < last;  // The machine's clock was.
  while (!samples_.empty() && (was_set_back || samples_.size() == kSamplesMax ||
                               unix_ns - samples_.front().unix_ns() > kWindowNs)) {
    samples_.pop_front();
    ++first_;
  }
  v1::WebSample sample;
  sample.set_unix_ns(unix_ns);
  sample.set_operations_per_second(OperationsPerSecond(
      status, last == 0 || was_set_back ? 0 : static_cast<double>(unix_ns - last) / 1e9));
  std::map<std::string, double> rates;  // The first side that reports a link counts.
  double sum = 0;
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      double all = 0, direct = 0;
      AddRates(link, all, direct);
      if (rates.emplace(EndsOfLink(node, link), all).second) sum += direct;
    }
  }
  sample.set_bytes_per_second(std::round(sum));
  for (const auto& [ends, rate] : rates) {
    if (std::ranges::find(links_, ends) != links_.end()) continue;
    if (links_.size() < kLinksMax)
      links_.push_back(ends);
    else if (const std::size_t place = PlaceOfLinkThatIsGone(rates); place < links_.size())
      links_[place] = ends;
  }
  for (const std::string& ends : links_) {
    const auto found = rates.find(ends);
    sample.add_link_bytes_per_second(found == rates.end() ? 0 : std::round(found->second));
  }
  samples_.push_back(std::move(sample));
  return true;
}

std::size_t History::PlaceOfLinkThatIsGone(const std::map<std::string, double>& rates) const {
  std::size_t place = 0;
  const auto has_carried = [&place](const v1::WebSample& sample) {
    const auto& carried = sample.link_bytes_per_second();
    return place < static_cast<std::size_t>(carried.size()) && carried[static_cast<int>(place)] > 0;
  };
  while (place < links_.size() &&
         (rates.contains(links_[place]) || std::ranges::any_of(samples_, has_carried)))
    ++place;
  return place;
}

// Counts all operations of a job that was not in the last sample.
double History::OperationsPerSecond(const v1::StatusReply& status, double seconds) {
  std::map<std::string, std::uint64_t> done;
  for (const v1::JobStatus& job : status.jobs()) {
    std::uint64_t most = 0;
    for (const v1::RankStatus& rank : job.ranks()) most = std::max(most, rank.operations_done());
    done[job.name()] += most;
  }
  std::uint64_t sum = 0;
  for (const auto& [job, count] : done) {
    const auto before = done_.find(job);
    sum += count - (before == done_.end() ? 0 : std::min(count, before->second));
  }
  done_ = std::move(done);
  return seconds > 0 ? std::round(10 * static_cast<double>(sum) / seconds) / 10 : 0;
}

v1::WebHistory History::Since(std::uint64_t& seen) const {
  v1::WebHistory history;
  const std::uint64_t end = first_ + samples_.size();
  for (std::uint64_t i = std::clamp(seen, first_, end); i < end; ++i)
    *history.add_samples() = samples_[i - first_];
  if (history.samples_size() > 0) history.mutable_links()->Assign(links_.begin(), links_.end());
  seen = end;
  return history;
}

}  // namespace mlxcomm::ctl
