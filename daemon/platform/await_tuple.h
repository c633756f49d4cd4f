// Makes an awaited Asio operation return a tuple that begins with the error, instead of throwing.
// Asio has as_tuple in asio::experimental before 1.33, and later only outside.
#pragma once

#if __has_include(<asio/as_tuple.hpp>)
#include <asio/as_tuple.hpp>
#else
#include <asio/experimental/as_tuple.hpp>
#endif
#include <asio/use_awaitable.hpp>

namespace mlxcomm::platform {

#if __has_include(<asio/as_tuple.hpp>)
inline constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
#else
inline constexpr auto kTuple = asio::experimental::as_tuple(asio::use_awaitable);
#endif

}  // namespace mlxcomm::platform
