# Builds a library under NVIDIA's name for an API, and its unsupported functions.

# cuspan_face_library(NAME LIBRARY VERSION ALONE): builds the library lib<LIBRARY>.so.<VERSION> with
# the functions of NAME_exports.txt. Functions not defined by the object library cuspan_NAME_face
# call cuspan_NAME_not_supported. Each function forwards to libcuspan.so. A run preloads it;
# otherwise the library loads it itself. The library is linked without other libraries. Otherwise a
# fully static program would load a second C library, and glibc would place its thread-local storage
# in invalid memory. In a static program each function returns ALONE.
function(cuspan_face_library name library version alone)
  set(load ${PROJECT_SOURCE_DIR}/interpose/load)
  set(exports ${CMAKE_CURRENT_SOURCE_DIR}/${name}_exports.txt)
  set(table cuspan_${name}_exports)
  set(refusing ${CMAKE_CURRENT_BINARY_DIR}/${name}_refusing.c)
  set(forwarding ${CMAKE_CURRENT_BINARY_DIR}/${name}_forwarding.c)
  set(generate Python3::Interpreter ${load}/generate_exports.py ${exports})
  set(needs ${load}/generate_exports.py ${load}/exports_list.py ${exports})
  add_custom_command(
    OUTPUT ${refusing}
    COMMAND ${generate} ${refusing} --refuse cuspan_${name}_not_supported --table ${table} --versions
    DEPENDS ${needs}
    COMMENT "Generating the functions of lib${library}.so.${version} that refuse"
    VERBATIM)
  add_custom_command(
    OUTPUT ${forwarding}
    COMMAND ${generate} ${forwarding} --forward-to ${table} --alone ${alone}
    DEPENDS ${needs}
    COMMENT "Generating lib${library}.so.${version}"
    VERBATIM)

  # Separate target: mixed C and C++ sources allow no precompiled headers.
  add_library(${table} OBJECT ${refusing})
  target_sources(cuspan_${name}_face INTERFACE $<TARGET_OBJECTS:${table}>)
  add_library(cuspan_${name}_library SHARED ${forwarding})
  # Stays loaded: some programs close it and still call its functions (Open MPI 4.1 does). Natively
  # the CUDA runtime keeps it open.
  target_link_options(cuspan_${name}_library PRIVATE -nostdlib -Wl,-z,now -Wl,-z,nodelete)
  set_target_properties(cuspan_${name}_library PROPERTIES
    OUTPUT_NAME ${library} VERSION ${version} SOVERSION ${version}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/cuspan/runtime)
  install(TARGETS cuspan_${name}_library LIBRARY DESTINATION lib/cuspan/runtime)
endfunction()
