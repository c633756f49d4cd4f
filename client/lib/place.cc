// The C interface to a process's place in its job.
#include <cstring>
#include <optional>
#include <string>

#include "client/lib/answer.h"
#include "client/lib/find_place.h"
#include "client/lib/mlxcomm.h"

using mlxcomm::Failure;
using mlxcomm::FailureCode;
using mlxcomm::kNoRank;
using mlxcomm::client::Environment;
using mlxcomm::client::FindPlace;
using mlxcomm::client::Guarded;
using mlxcomm::client::Invalid;
using mlxcomm::client::Place;
using mlxcomm::client::PlaceGiven;
using mlxcomm::client::ProcessEnvironment;
using mlxcomm::client::Tell;

namespace {

Failure Find(const mlxcomm_place_options& options, mlxcomm_place& out) {
  PlaceGiven given;
  if (options.job != nullptr) given.job = options.job;
  if (options.rank != -1) given.rank = options.rank;
  if (options.size != -1) given.size = options.size;
  Environment environment = ProcessEnvironment;
  if (options.lookup != nullptr) {
    environment = [&options](const char* name) -> std::optional<std::string> {
      const char* const value = options.lookup(options.lookup_context, name);
      return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    };
  }
  Place place;
  if (Failure failure = FindPlace(environment, given, place); !failure.ok()) return failure;
  if (place.job.size() >= sizeof out.job) {
    return Invalid("job: expected a name of less than " + std::to_string(sizeof out.job) +
                   " bytes");
  }
  std::memcpy(out.job, place.job.c_str(), place.job.size() + 1);
  out.rank = place.rank;
  out.size = place.size;
  out.launched = place.launched ? 1 : 0;
  return {};
}

}  // namespace

extern "C" {

MLXCOMM_API void mlxcomm_place_options_init(mlxcomm_place_options* options) {
  *options = {};
  options->struct_size = sizeof *options;
  options->rank = -1;
  options->size = -1;
}

MLXCOMM_API mlxcomm_code mlxcomm_find_place(const mlxcomm_place_options* options,
                                            mlxcomm_place* place, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (place == nullptr) return Tell(Invalid("place: expected a pointer, got NULL"), error);
    mlxcomm_place_options all;
    mlxcomm_place_options_init(&all);
    if (options != nullptr && options->struct_size != sizeof all) {
      return Tell(Invalid("options: expected what mlxcomm_place_options_init has filled in"),
                  error);
    }
    if (options != nullptr) all = *options;
    return Tell(Find(all, *place), error);
  });
}

}  // extern "C"
