//! Prints the OpenAPI description of the query API; the UI's types are generated from the copy in `ui/openapi.json`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", wirespan_view::openapi().to_pretty_json()?);
    Ok(())
}
