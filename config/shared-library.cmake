# mlxcomm_export_only(target name...): other libraries see only the symbols with these names, in C's spelling;
# * stands for the rest of a name.
function(mlxcomm_export_only target)
  set(exports "${CMAKE_CURRENT_BINARY_DIR}/${target}.exports")
  if(APPLE)
    list(TRANSFORM ARGN PREPEND "_")
    list(JOIN ARGN "\n" names)
    file(CONFIGURE OUTPUT "${exports}" CONTENT "${names}\n")
    target_link_options(${target} PRIVATE "-Wl,-exported_symbols_list,${exports}")
  else()
    list(JOIN ARGN "; " names)
    file(CONFIGURE OUTPUT "${exports}" CONTENT "{\n  global: ${names};\n  local: *;\n};\n")
    target_link_options(${target} PRIVATE "-Wl,--version-script=${exports}")
  endif()
endfunction()

# mlxcomm_shared_library(target header parts name...): a shared library of all of the static library `parts`.
# CMake wants a source, for which the header stands.
function(mlxcomm_shared_library target header parts)
  add_library(${target} SHARED ${header})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  if(APPLE)
    target_link_libraries(${target} PRIVATE "-Wl,-force_load,$<TARGET_FILE:${parts}>")
  else()
    target_link_libraries(${target} PRIVATE -Wl,--whole-archive ${parts} -Wl,--no-whole-archive)
  endif()
  target_link_libraries(${target} PRIVATE mlxcomm_options ${parts})
  mlxcomm_export_only(${target} ${ARGN})
endfunction()
